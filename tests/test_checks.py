"""The words that a learner reads, and the grader's own faults."""

import pytest
import torch

from autograder.checks import (
    CheckFailed,
    Inputs,
    NotVerified,
    as_pair,
    check_close,
    check_gradient,
    expect_error,
    tolerance,
)
from autograder.codec import BadFrame, Odd
from autograder.hidden import classify, run_tests, seed_of
from autograder.probe import CallTimeout, KernelDied, Learner, LearnerError, LocalChannel, NotAnswered
from autograder.verdict import Outcome, worst

ONE = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (None, "should be a tensor, but it is None"),
        (Odd("a sparse tensor"), "but it is a sparse tensor"),
        (torch.ones(3, 2), r"has the shape \(3, 2\); expected \(2, 3\)"),
        (ONE.double(), "has the dtype float64; expected float32"),
        (ONE * float("nan"), "6 of 6 entries of the output are NaN"),
        (ONE * float("inf"), "6 of 6 entries of the output are infinite"),
        (ONE * 1.5, "6 of 6 entries of the output are wrong; the largest difference is 0.5"),
    ],
)
def test_a_wrong_tensor_is_described(got, words):
    with pytest.raises(CheckFailed, match=words):
        check_close(got, ONE, "the output")


def test_a_message_holds_no_expected_value():
    with pytest.raises(CheckFailed) as caught:
        check_close(ONE, torch.full((2, 3), 0.123456))
    assert "0.123" not in str(caught.value)


def test_equal_within_the_tolerance_passes():
    check_close(ONE + tolerance(torch.float32) / 2, ONE)
    with pytest.raises(CheckFailed):
        check_close(ONE + 2 * tolerance(torch.float32), ONE)


def test_other_checks_speak_too():
    with pytest.raises(CheckFailed, match="no gradient reaches q"):
        check_gradient(None, ONE, "q")
    with pytest.raises(CheckFailed, match=r"should be the pair \(output, weights\), but it is a tensor of shape"):
        as_pair(ONE)
    with pytest.raises(CheckFailed, match="should raise an error"), expect_error("d_model=10 with 3 heads"):
        pass
    with pytest.raises(CheckFailed, match="does not name 10"), expect_error("this", mentions=[10]):
        raise LearnerError("f", ["ValueError", "Exception"], "bad size")
    with pytest.raises(CheckFailed, match="but it raised TypeError"), expect_error("this"):
        raise LearnerError("f", ["TypeError", "Exception"], "bad size")
    with expect_error("this", mentions=[10, 3]):
        raise LearnerError("f", ["ValueError", "Exception"], "10 is not divisible by 3")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.PASS),
        (CheckFailed("x"), Outcome.FAIL),
        (NotVerified("x"), Outcome.NOT_VERIFIED),
        (NotAnswered("x"), Outcome.NOT_ANSWERED),
        (LearnerError("f", ["TypeError"], "x"), Outcome.ERROR),
        (LearnerError("f", ["MemoryError"], "x"), Outcome.MEMORY),
        (LearnerError("f", ["RuntimeError"], "DefaultCPUAllocator: can't allocate memory"), Outcome.MEMORY),
        (CallTimeout("x"), Outcome.TIMEOUT),
        (KernelDied("x"), Outcome.CRASH),
        (KernelDied("x", memory=True), Outcome.MEMORY),
        (BadFrame("x"), Outcome.ERROR),
        (ZeroDivisionError("x"), Outcome.GRADER_FAULT),
    ],
)
def test_outcomes(error, outcome):
    assert classify(error)[0] is outcome


def test_the_worst_counts():
    assert worst([Outcome.PASS, Outcome.NOT_VERIFIED]) is Outcome.PASS
    assert worst([Outcome.PASS, Outcome.NOT_ANSWERED]) is Outcome.NOT_ANSWERED
    assert worst([Outcome.FAIL, Outcome.NOT_ANSWERED, Outcome.CRASH]) is Outcome.CRASH


def test_inputs_depend_on_the_secret_alone():
    assert torch.equal(Inputs(3).normal(4), Inputs(3).normal(4))
    assert seed_of(b"a", "t", "x") != seed_of(b"b", "t", "x")
    mask = Inputs(1).mask(50, 4)
    assert bool(mask.any(-1).all()) and not bool(mask.all(-1).any())


HIDDEN = """
from autograder.checks import item
@item("a", points=1, title="t")
def test_unpack(learner, reference):
    first, second = learner.f()
@item("a", points=1, title="t")
def test_broken(learner, reference):
    learner.f()
    1 / 0
"""


def test_a_stumble_over_an_odd_answer_is_no_grader_fault_and_a_broken_test_is(tmp_path):
    path = tmp_path / "hidden.py"
    path.write_text(HIDDEN)

    def make(function):
        return lambda record: Learner(LocalChannel({"f": function}), ["f"], record)

    results = run_tests(path, {"x": make(lambda: 3)}, make(lambda: (1, 2)), secret=b"s", topic="t")["x"]
    assert results["test_unpack"].outcome is Outcome.FAIL
    assert "does not have the form" in results["test_unpack"].message
    assert results["test_broken"].outcome is Outcome.GRADER_FAULT


def test_a_reference_that_raises_is_a_grader_fault(tmp_path):
    path = tmp_path / "hidden.py"
    path.write_text(
        "from autograder.checks import item\n"
        '@item("a", points=1, title="t")\n'
        "def test_both(learner, reference):\n    learner.f(1)\n    reference.f(1)\n"
    )

    def make(function):
        return lambda record: Learner(LocalChannel({"f": function}), ["f"], record)

    results = run_tests(path, {"x": make(lambda x: 3)}, make(lambda x: 1 / 0), secret=b"s", topic="t")["x"]
    assert results["test_both"].outcome is Outcome.GRADER_FAULT
