"""Runs one attack, and says what it changed."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat

from autograder.bench import Bench
from autograder.course import Course
from autograder.feedback import page
from autograder.grade import Grader
from autograder.sandbox.host import Zygote
from autograder.sandbox.limits import Limits
from autograder.verdict import Outcome, Verdict
from tests.attacks import channel, harm, scores  # noqa: F401
from tests.attacks.attacks import ATTACKS, WRONG, Attack

RIGHT = Path(__file__).parent.parent / "submissions/02_scaled_dot_product/einsum.py"
# Short limits, so that what hangs does not hang for long.
LIMITS = Limits(cell_s=3, call_s=1.5, training_s=10, total_s=30, restarts=3)


@dataclass(frozen=True)
class Found:
    """The verdict on an attack, and what is wrong with it; nothing is expected to be."""

    verdict: Verdict
    wrong: tuple[str, ...]


def grader(bench: Bench, zygote: Zygote) -> Grader:
    """Naming mistakes is not what is tried here, and it takes most of the time."""
    return Grader(replace(bench, slips=[], _diagnosers={}), zygote, b"a secret of the attacks")


def notebook(source: str) -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_code_cell(WRONG), nbformat.v4.new_code_cell(source)]
    return nbformat.v4.new_notebook(cells=cells)


def run(attack: Attack, with_: Grader, course: Course) -> Found:
    before = _outside(course)
    verdict = with_.grade(notebook(attack.source), attack.name)
    wrong = []
    if verdict.score:
        wrong.append(f"earned {[(i.title, i.points) for i in verdict.items if i.points]}")
    if verdict.outcome is Outcome.GRADER_FAULT:
        wrong.append(f"a grader fault: {verdict.items[0].message}")
    if attack.outcomes and str(verdict.outcome) not in attack.outcomes:
        wrong.append(f"outcome {verdict.outcome}, expected one of {attack.outcomes}: {verdict.items[0].message}")
    if _outside(course) != before:
        wrong.append("something outside was changed")
    shown = page("topic", "student", verdict)
    if any(part in shown for part in ("<script", "<style>*", "<svg onload", "\x1b", "\u202e")) or len(shown) > 300_000:
        wrong.append("the learner's page shows what it should not")
    verdict.to_json().encode()
    return Found(verdict, tuple(wrong))


def class_goes_on(with_: Grader) -> bool:
    """Whether the next, right submission gets what it should."""
    verdict = with_.grade_file(RIGHT)
    return verdict.score == verdict.max_score


def _outside(course: Course) -> object:
    folders = (course.solutions, course.root / "autograder", course.exercises)
    files = {p: p.stat().st_mtime_ns for folder in folders for p in folder.rglob("*") if p.suffix in (".py", ".ipynb")}
    # torch sets the one itself when it first imports some of its parts, pytest the other at each step of a test.
    own = ("TORCHINDUCTOR_CACHE_DIR", "PYTEST_CURRENT_TEST")
    environment = {k: v for k, v in os.environ.items() if k not in own}
    return files, signal.getsignal(signal.SIGTERM), os.getcwd(), environment


__all__ = ["ATTACKS", "LIMITS", "class_goes_on", "grader", "run"]
