"""Grading one submission, through the sandbox: the sample class, and what a `.py` may leave out."""

import json
from pathlib import Path

import pytest

from autograder.grade import Grader, Refused, parse_notebook
from autograder.sample import expected_outcomes, fill, sample_answers
from autograder.sandbox.host import Zygote
from autograder.sandbox.limits import Limits
from autograder.verdict import Outcome
from autograder.verify import stubbed

EXPECTED = json.loads((Path(__file__).parent / "submissions/02_scaled_dot_product/expected.json").read_text())


@pytest.fixture
def own_grader(student: str, grader: Grader, bench):
    """The grader of the session; for an endless loop one that waits less."""
    if student != "infinite_loop":
        yield grader
        return
    with Zygote(Limits(cell_s=6, call_s=4)) as zygote:
        yield Grader(bench, zygote, b"a secret of the tests")


@pytest.mark.parametrize("student", sorted(EXPECTED))
def test_sample_class(student: str, own_grader: Grader, course, bench):
    answers = sample_answers(course, bench.topic)[student].read_text()
    verdict = own_grader.grade(fill(stubbed(bench), answers), student)
    expected = expected_outcomes(course, bench.topic)[student]
    assert (str(verdict.outcome), verdict.score) == (expected["outcome"], expected["score"])
    assert set(expected["slips"]) <= {item.slip for item in verdict.items}


def test_every_answer_of_the_sample_class_has_an_expected_outcome(course, bench):
    assert set(sample_answers(course, bench.topic)) == set(EXPECTED)


def test_the_same_submission_gets_the_same_verdict(grader, course, bench):
    answers = sample_answers(course, bench.topic)["no_scale"].read_text()
    first, second = (grader.grade(fill(stubbed(bench), answers), "x") for _ in range(2))
    assert first.to_json() == second.to_json()


def test_a_py_file_may_define_some_of_the_names(grader, tmp_path):
    path = tmp_path / "part.py"
    path.write_text("import torch\ndef softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n")
    verdict = grader.grade_file(path)
    assert verdict.outcome is Outcome.NOT_ANSWERED
    by_id = {(i.grade_id, i.outcome) for i in verdict.items}
    assert ("softmax", Outcome.PASS) in by_id and ("attention", Outcome.NOT_ANSWERED) in by_id
    assert verdict.score == 3


def test_a_file_that_is_no_notebook_is_refused_with_a_reason(grader, tmp_path):
    path = tmp_path / "broken.ipynb"
    path.write_text("{not json")
    verdict = grader.grade_file(path)
    assert verdict.outcome is Outcome.REFUSED and verdict.score == 0
    assert "not a notebook that Jupyter can read" in verdict.notes[0] and "hand it in again" in verdict.notes[0]
    with pytest.raises(Refused):
        parse_notebook("[1, 2]", "list.ipynb")


def test_one_name_that_kills_the_kernel_does_not_cost_the_other(grader, tmp_path):
    path = tmp_path / "half.py"
    path.write_text(
        "import os, torch\n"
        "def softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n"
        "def scaled_dot_product_attention(q, k, v, mask=None):\n    os._exit(7)\n"
    )
    verdict = grader.grade_file(path)
    assert verdict.cell_score("softmax") == 3 and verdict.outcome is Outcome.CRASH


def test_a_cell_that_kills_the_kernel_does_not_cost_the_others(grader, bench, course):
    notebook = fill(stubbed(bench), sample_answers(course, bench.topic)["einsum"].read_text())
    notebook.cells.append(notebook.cells[-1].copy())
    notebook.cells[-1].update(cell_type="code", source="import os; os._exit(1)", metadata={})
    verdict = grader.grade(notebook, "killer")
    assert verdict.score == verdict.max_score


FAKE_LEGAL = {
    "indexing with a CPU tensor": "q = q[..., torch.arange(q.size(-1))]",
    "a 0-dim CPU scalar": "q = q * torch.tensor(1.0)",
    "a tensor made on the device": "q = q + torch.tensor([0.0], device=q.device)",
    "as_tensor and new_tensor": "q = q + torch.as_tensor([0.0], device=q.device) + q.new_tensor([0.0])",
    "an arange on the device": "q = q + 0 * torch.arange(q.size(-1), device=q.device)",
    "to the device of another": "q = q + torch.zeros(1).to(q.device)",
}
RIGHT = """
import math, torch
def softmax(x, dim=-1):
    return torch.softmax(x, dim)
def scaled_dot_product_attention(q, k, v, mask=None):
    {line}
    s = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        s = s.masked_fill(mask == 0, float("-inf"))
    w = torch.nan_to_num(torch.softmax(s, -1))
    return w @ v, w
"""


def device_item(grader, tmp_path, line):
    path = tmp_path / "answer.py"
    path.write_text(RIGHT.format(line=line))
    return grader.grade_file(path).items[-1]


@pytest.mark.parametrize("what", FAKE_LEGAL)
def test_legal_code_passes_on_the_imaginary_device(what, grader, tmp_path):
    assert device_item(grader, tmp_path, FAKE_LEGAL[what]).outcome is Outcome.PASS


@pytest.mark.parametrize(
    "line", ["q = q + torch.zeros(q.size(-1))", "q = q.cpu()", "k = k * torch.ones(k.shape, device='cpu')"]
)
def test_a_tensor_left_on_the_cpu_is_caught(line, grader, tmp_path):
    item = device_item(grader, tmp_path, line)
    assert item.outcome is Outcome.FAIL and item.points == 0
    assert "device" in item.message


@pytest.mark.parametrize(
    "line",
    ["q = q if q.sum().item() > -1e9 else k", "q = q + torch.zeros(q.size(-1), device=q.device.type, dtype=q.dtype)"],
)
def test_what_cannot_be_decided_earns_its_points_with_the_values(line, grader, tmp_path):
    item = device_item(grader, tmp_path, line)
    assert item.outcome is Outcome.NOT_VERIFIED and item.points == item.max_points


def test_what_cannot_be_decided_earns_nothing_for_wrong_values(grader, tmp_path):
    item = device_item(grader, tmp_path, "q = 2 * (q if q.sum().item() > -1e9 else k)")
    assert item.outcome is Outcome.NOT_VERIFIED and item.points == 0
