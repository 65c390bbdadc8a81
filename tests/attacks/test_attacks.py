"""Every attack scores nothing, changes nothing outside, shows nothing, and the class goes on."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from autograder.feedback import page
from autograder.grade import Grader
from autograder.sandbox.host import Zygote
from autograder.sandbox.limits import Limits
from autograder.verdict import Outcome
from tests.attacks.attacks import ATTACKS, WRONG

RIGHT = Path(__file__).parent.parent / "submissions/02_scaled_dot_product/einsum.py"
# Short limits, so that what hangs does not hang for long.
LIMITS = Limits(cell_s=8, call_s=4, training_s=20, total_s=60, restarts=3)


@pytest.fixture(scope="module")
def tight(bench):
    # Naming mistakes is not what is tested here, and it takes most of the time.
    with Zygote(LIMITS) as zygote:
        yield Grader(replace(bench, slips=[], _diagnosers={}), zygote, b"a secret of the attacks")


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(name: str, tight: Grader, course):
    watched = [course.solutions, course.root / "autograder"]
    before = {p: p.stat().st_mtime_ns for folder in watched for p in folder.rglob("*.py")}
    handlers = signal.getsignal(signal.SIGTERM), os.getcwd(), os.environ.get("PATH")
    cells = [nbformat.v4.new_code_cell(WRONG), nbformat.v4.new_code_cell("import torch\n" + ATTACKS[name])]
    verdict = tight.grade(nbformat.v4.new_notebook(cells=cells), name)
    assert verdict.score == 0, [(i.title, i.outcome) for i in verdict.items if i.points]
    assert verdict.outcome is not Outcome.GRADER_FAULT, verdict.items[0].message
    shown = page("topic", "student", verdict)
    assert "<script>" not in shown and "\x1b" not in shown and len(shown) < 300_000
    assert {p: p.stat().st_mtime_ns for folder in watched for p in folder.rglob("*.py")} == before
    assert (signal.getsignal(signal.SIGTERM), os.getcwd(), os.environ.get("PATH")) == handlers


def test_the_class_goes_on_after_all_of_them(tight: Grader):
    assert tight.grade_file(RIGHT).score == 9
