"""topic.py to source to exercise: markers are checked, ids are stable, points come from the tests."""

import shutil

import pytest

from autograder.build import cell_points, source_notebook, write_whole
from autograder.cells import TopicError, answer_names, read_cells, reference_source
from autograder.hidden import HiddenTestsBroken, collect_items
from autograder.release import release
from autograder.restore import restore, role_of
from autograder.slips import SlipError, read_entries


def test_points_of_a_cell_are_those_of_its_tests(bench):
    notebook = source_notebook(bench.topic)
    points = {c.metadata.nbgrader.grade_id: c.metadata.nbgrader.points for c in notebook.cells if role_of(c) == "check"}
    assert points == cell_points(bench.items)
    assert notebook.metadata.course["points"] == sum(points.values()) == 9


def test_two_builds_are_the_same_bytes(small_course):
    topic = small_course.topics()[0]
    first = release(topic).read_bytes(), topic.source.read_bytes()
    shutil.rmtree(small_course.work)
    assert (release(topic).read_bytes(), topic.source.read_bytes()) == first


def test_a_check_cell_fails_closed_under_stock_nbgrader(bench):
    checks = [c for c in source_notebook(bench.topic).cells if role_of(c) == "check"]
    assert checks and all(c.source.splitlines()[-1].startswith("0.0") for c in checks)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('# %% answer="a"\ndef f(): pass\n', "needs ### BEGIN SOLUTION"),
        ('# %% answer="a" check="b"\npass\n', "both"),
        ('# %% check="a"\npass\n\n# %% check="a"\npass\n', "used twice"),
        ("# %%\n### BEGIN SOLUTION\n### END SOLUTION\n", "outside an answer cell"),
    ],
)
def test_a_broken_topic_is_named(text, words, tmp_path):
    path = tmp_path / "topic.py"
    path.write_text(text)
    with pytest.raises(TopicError, match=words):
        read_cells(path)


def test_a_check_without_tests_is_named(small_course):
    topic = small_course.topics()[0]
    topic.hidden.write_text(topic.hidden.read_text().replace('@item("rows"', '@item("lines"'))
    with pytest.raises(TopicError, match="lines"):
        source_notebook(topic)


def test_hidden_tests_that_do_not_import_are_a_fault(small_course):
    topic = small_course.topics()[0]
    topic.hidden.write_text("import nothing_of_this_name\n")
    with pytest.raises(HiddenTestsBroken, match="can't be collected"):
        collect_items(topic.hidden)


def test_the_reference_is_the_answers(bench):
    assert answer_names(bench.topic.text) == ("softmax", "scaled_dot_product_attention")
    assert "show_check(" in reference_source(bench.topic.text)
    assert "plt.show()" not in reference_source(bench.topic.text)


def test_an_edit_that_finds_nothing_is_named(tmp_path):
    path = tmp_path / "slips.py"
    path.write_text('edit("X-1", "sentence", ("not there", "put"))\n')
    with pytest.raises(SlipError, match="X-1: the text 'not there' stands 0 times"):
        read_entries(path, "def f():\n    return 1\n")


def test_a_definition_replaces_the_reference(tmp_path):
    path = tmp_path / "slips.py"
    path.write_text(
        'import math\n@slip("X-1", "one")\ndef f():\n    return 2\n\n@slip("X-2", "two")\ndef f():\n    return 3\n'
    )
    values = []
    for entry in read_entries(path, "def f():\n    return 1\n"):
        namespace: dict = {}
        exec(entry.source, namespace)
        values.append((entry.id, namespace["f"]()))
    assert values == [("X-1", 2), ("X-2", 3)]


def test_restore_puts_back_what_a_learner_removed(bench):
    source = bench.notebook
    own = [c.copy() for c in source.cells if role_of(c) in ("answer", "check")]
    own[1].source = "print('changed')"
    restored, notes = restore(own_notebook(own), source)
    assert [c.metadata.nbgrader.grade_id for c in restored.cells if role_of(c) == "setup"] == ["setup-imports"]
    assert next(c for c in restored.cells if c.id == "softmax").source != "print('changed')"
    assert any("was changed" in note for note in notes) and any("was missing" in note for note in notes)


def own_notebook(cells):
    import nbformat

    return nbformat.v4.new_notebook(cells=cells)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_whole(path, "before")

    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError):
        write_whole(path, "after")
    assert path.read_text() == "before" and [p.name for p in tmp_path.iterdir()] == ["file.txt"]
