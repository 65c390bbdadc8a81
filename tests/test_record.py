"""Recording: nbgrader's own commands give the same scores, and a second submission replaces the first."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder import classroom, feedback, report
from autograder.course import Course
from autograder.record import as_text, course_directory, printable, save_scores
from autograder.release import release
from autograder.sample import _with_metadata, fill
from autograder.verdict import ItemVerdict, Outcome, Verdict

KEY = "02_scaled_dot_product"
SOFTMAX = "import torch\n\ndef softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n"


@pytest.fixture
def released(small_course: Course) -> Course:
    release(small_course.topic(KEY))
    return small_course


def hand_in(course: Course, student: str, answers: str) -> Path:
    topic = course.topic(KEY)
    path = course.submitted / student / KEY / topic.notebook
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(fill(_with_metadata(topic.exercise), answers), path)
    return path


def scores(course: Course) -> dict[str, float]:
    return {str(row["student"]): row["score"] for row in report.scores(course)}


def nbgrader(course: Course, *arguments: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    return subprocess.run(command, cwd=course.root, env=environment, capture_output=True, text=True, timeout=300)


def test_stock_nbgrader_gives_the_same_scores(released: Course):
    right = (released.sample_class / KEY / "einsum.py").read_text()
    hand_in(released, "ada", right)
    hand_in(released, "ben", SOFTMAX)
    result = nbgrader(released, "autograde", KEY)
    assert result.returncode == 0, result.stderr[-2000:]
    stock = scores(released)
    assert stock == {"ada": 9.0, "ben": 3.0}
    result = nbgrader(released, "export")
    assert result.returncode == 0, result.stderr[-2000:]
    with (released.root / "grades.csv").open() as file:
        assert {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)} == stock
    shutil.rmtree(released.autograded)
    released.gradebook.unlink()
    release(released.topic(KEY))
    graded = classroom.grade_course(released)
    assert scores(released) == stock
    assert {g.student: g.verdict.score for g in graded} == stock


def test_a_second_submission_replaces_every_score(released: Course):
    hand_in(released, "ada", (released.sample_class / KEY / "einsum.py").read_text())
    classroom.grade_course(released)
    assert scores(released) == {"ada": 9.0}
    hand_in(released, "ada", "import os\nos._exit(1)\n")
    classroom.grade_course(released)
    assert scores(released) == {"ada": 0.0}


def test_grading_again_changes_nothing(released: Course):
    hand_in(released, "ada", SOFTMAX)
    classroom.grade_course(released)
    verdict = released.verdicts / KEY / "ada.json"
    before = verdict.read_bytes(), scores(released)
    again = classroom.grade_course(released)
    assert not again[0].fresh
    assert (verdict.read_bytes(), scores(released)) == before


def test_what_lies_in_the_folder_without_having_come_through_intake_is_refused(released: Course):
    right = hand_in(released, "ada", SOFTMAX)
    link, pipe = (hand_in(released, student, "") for student in ("ben", "cyd"))
    link.unlink()
    link.symlink_to(right)
    pipe.unlink()
    os.mkfifo(pipe)
    outcomes = {g.student: g.verdict.outcome for g in classroom.grade_course(released)}
    assert outcomes == {"ada": Outcome.NOT_ANSWERED, "ben": Outcome.REFUSED, "cyd": Outcome.REFUSED}
    assert scores(released)["ada"] == 3.0


def test_a_verdict_that_was_cut_off_is_made_again(released: Course):
    hand_in(released, "ada", SOFTMAX)
    classroom.grade_course(released)
    path = released.verdicts / KEY / "ada.json"
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    classroom.grade_course(released)
    assert path.read_text() == whole


def test_a_persons_score_stays_for_the_same_file_and_goes_with_a_new_one(released: Course):
    hand_in(released, "ada", SOFTMAX)
    classroom.grade_course(released)
    directory, _config = course_directory(released)
    topic = released.topic(KEY)
    verdict = classroom.grade_course(released)[0].verdict
    with Gradebook(directory.db_url) as gradebook:
        gradebook.find_grade("attention", topic.name, KEY, "ada").manual_score = 1.5
        gradebook.db.commit()
        save_scores(gradebook, topic, "ada", verdict)
        assert gradebook.find_grade("attention", topic.name, KEY, "ada").manual_score == 1.5
    hand_in(released, "ada", SOFTMAX + "\nagain = True\n")
    classroom.grade_course(released)
    with Gradebook(directory.db_url) as gradebook:
        assert gradebook.find_grade("attention", topic.name, KEY, "ada").manual_score is None


def test_a_grader_fault_is_for_a_person_and_no_zero(released: Course):
    hand_in(released, "ada", SOFTMAX)
    graded = classroom.grade_course(released)[0]
    topic = released.topic(KEY)
    items = tuple(
        ItemVerdict(i.grade_id, i.title, Outcome.GRADER_FAULT, 0.0, i.max_points) for i in graded.verdict.items
    )
    fault = Verdict(KEY, "x", Outcome.GRADER_FAULT, items, key=graded.verdict.key)
    directory, _config = course_directory(released)
    with Gradebook(directory.db_url) as gradebook:
        save_scores(gradebook, topic, "ada", fault)
        grades = gradebook.find_submission_notebook(topic.name, KEY, "ada").grades
        assert all(g.auto_score is None and g.needs_manual_grade for g in grades)


def test_feedback_and_report_show_learner_text_as_text(released: Course):
    answer = "def softmax(x, dim=-1):\n    raise ValueError('<script>alert(1)</script>\\x1b[31m')\n"
    hand_in(released, "=cmd", answer)
    graded = classroom.grade_course(released)[0]
    page = feedback.write_feedback(released, graded.topic, graded.student, graded.verdict).read_text()
    assert "&lt;script&gt;" in page and "<script" not in page and "\x1b" not in page
    assert "<script" not in report.report(released).read_text()
    assert "'=cmd," in report.export(released).read_text()
    notebook = (released.autograded / "=cmd" / KEY / released.topic(KEY).notebook).read_text()
    assert "\\u001b" not in notebook


def test_stock_nbgrader_takes_nothing_but_notebook_and_time_from_a_submission(released: Course):
    path = hand_in(released, "eve", SOFTMAX)
    (path.parent / "data.txt").symlink_to("/etc/passwd")
    (path.parent / "torch.py").write_text("raise SystemExit")
    (path.parent / ".hidden").write_text("x")
    (path.parent / "timestamp.txt").write_text("2026-01-02 03:04:05 UTC")
    hand_in(released, "link", SOFTMAX).unlink()
    (released.submitted / "link" / KEY / path.name).symlink_to(path)
    assert nbgrader(released, "autograde", KEY).returncode == 0
    assert {p.name for p in (released.autograded / "eve" / KEY).iterdir()} == {path.name, "timestamp.txt"}
    assert scores(released) == {"eve": 3.0, "link": 0.0}


def test_learner_text_is_fenced():
    assert as_text("a <b> ``` c") == "````text\na <b> ``` c\n````"
    assert printable("a\x1b[1mb\n") == "a\ufffd[1mb\n"
