"""Every exercise notebook, from top to bottom in an ordinary kernel: with the solutions, and with nothing filled in."""

import nbclient
import nbformat
import pytest

from autograder.build import source_notebook
from autograder.course import find_course
from autograder.restore import role_of

KEYS = [topic.key for topic in find_course().topics()]


def run(notebook: nbformat.NotebookNode, tmp_path) -> nbformat.NotebookNode:
    (tmp_path / "matplotlibrc").write_text("backend: Agg\n")
    resources = {"metadata": {"path": str(tmp_path)}}
    return nbclient.NotebookClient(notebook, timeout=300, allow_errors=True, resources=resources).execute()


def errors(cell) -> list[str]:
    return [f"{o.ename}: {o.evalue}" for o in cell.get("outputs", []) if o.output_type == "error"]


@pytest.mark.parametrize("key", KEYS)
def test_with_the_solutions_no_cell_fails(key: str, tmp_path):
    notebook = run(source_notebook(find_course().topic(key)), tmp_path)
    assert [(cell.id, errors(cell)) for cell in notebook.cells if errors(cell)] == []


@pytest.mark.parametrize("key", KEYS)
def test_with_nothing_filled_in_only_checks_fail_and_say_why(key: str, tmp_path):
    exercise = nbformat.read(find_course().topic(key).exercise, as_version=4)
    notebook = run(exercise, tmp_path)
    failed = {cell.id: (role_of(cell), errors(cell)) for cell in notebook.cells if errors(cell)}
    checks = {cell.id for cell in notebook.cells if role_of(cell) == "check"}
    assert set(failed) == checks
    for role, messages in failed.values():
        assert role == "check"
        assert "This step is not written yet" in messages[0]


@pytest.mark.parametrize("key", KEYS)
def test_only_torch_numpy_and_matplotlib_are_imported(key: str):
    import ast
    import sys

    exercise = nbformat.read(find_course().topic(key).exercise, as_version=4)
    for cell in exercise.cells:
        if cell.cell_type == "code":
            for node in ast.walk(ast.parse(cell.source)):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                roots = {name.split(".")[0] for name in names}
                assert roots <= {"torch", "numpy", "matplotlib", *sys.stdlib_module_names}


def test_the_course_has_a_hundred_points_and_45_items():
    from autograder.cells import read_cells
    from autograder.hidden import collect_items

    items = [item for key in KEYS for item in collect_items(find_course().topic(key).hidden)]
    by_hand = sum(c.points for key in KEYS for c in read_cells(find_course().topic(key).text)[0] if c.kind == "written")
    assert len(items) >= 45
    assert sum(item.points for item in items) + by_hand == 100
