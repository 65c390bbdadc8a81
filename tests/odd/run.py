"""Sends one odd submission through intake and grading."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.bench import Bench
from autograder.course import Course
from autograder.grade import Grader
from autograder.intake import IntakeReport, intake
from autograder.sample import _with_metadata, fill
from autograder.sandbox.host import Zygote
from autograder.sandbox.limits import Limits
from tests.attacks.attacks import WRONG
from tests.odd import arriving, content  # noqa: F401
from tests.odd.rows import NAME, ROWS, Row

KEY = "02_scaled_dot_product"
RIGHT = Path(__file__).parent.parent / f"submissions/{KEY}/einsum.py"
LIMITS = Limits(cell_s=4, call_s=4, training_s=20, total_s=60, restarts=3)


@dataclass(frozen=True)
class Found:
    """What became of a row: how it was taken, its score, the notes, and what is wrong about that."""

    taken: str
    score: float | None
    notes: str
    wrong: tuple[str, ...]


def small_course(course: Course, root: Path) -> Course:
    """A course with topic 02 alone, in a folder of its own, its exercise released."""
    shutil.copytree(course.solutions / KEY, root / "solutions" / KEY)
    shutil.copytree(course.exercises / KEY, root / "exercises" / KEY)
    shutil.copy(course.root / "nbgrader_config.py", root)
    (root / "book").mkdir()
    return Course(root)


def grader(bench: Bench, zygote: Zygote) -> Grader:
    return Grader(replace(bench, slips=[], _diagnosers={}), zygote, b"a secret of odd submissions")


def run(row: Row, with_: Grader, course: Course, inbox: Path) -> Found:
    """inbox: an empty folder. course: a small course of the row's own, or one that rows share."""
    folder = inbox / "inbox" / "anna"
    folder.mkdir(parents=True)
    shutil.rmtree(course.work, ignore_errors=True)
    exercise = _with_metadata(course.topic(KEY).exercise)
    answers = WRONG if row.wrong else RIGHT.read_text()
    row.write(folder, json.loads(json.dumps(fill(exercise, answers))))
    source = inbox / "archive.zip" if (inbox / "archive.zip").exists() else inbox / "inbox"
    report = intake(course, source)
    taken = sorted(course.submitted.glob(f"*/{KEY}/{NAME}"))
    score = with_.grade_file(taken[0]).score if taken else None
    return _judged(row, report, score)


def _judged(row: Row, report: IntakeReport, score: float | None) -> Found:
    entries = [e for e in report.entries if e.verdict == row.taken]
    notes = " ".join(e.reason for e in report.entries if e.verdict == row.taken)
    wrong = []
    if not entries:
        wrong.append(f"expected {row.taken}, got {report.entries}")
    if row.says not in notes:
        wrong.append(f"expected {row.says!r} in the notes, got {notes!r}")
    if score != row.score:
        wrong.append(f"expected the score {row.score}, got {score}")
    return Found(entries[0].verdict if entries else "?", score, notes, tuple(wrong))


__all__ = ["LIMITS", "ROWS", "grader", "run", "small_course"]
