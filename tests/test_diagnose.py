"""Naming mistakes: rewritten forms are still named, right code and other wrong code are not."""

import pytest
import torch

from autograder.cells import reference_source
from autograder.codec import BadFrame, Odd
from autograder.diagnose import same_value
from autograder.probe import LearnerError
from autograder.slips import Entry

SECRET = b"diagnosis"
# Mistakes of the catalogue in another hand: other operators, other order, other names.
REWRITTEN = {
    "SD-01": """
def scaled_dot_product_attention(query, key, value, mask=None):
    logits = torch.einsum("...qd,...kd->...qk", query, key)
    if mask is not None:
        logits = torch.where(mask.bool(), logits, torch.full_like(logits, -torch.inf))
    probabilities = F.softmax(logits, dim=-1).nan_to_num(0.0)
    return torch.einsum("...qk,...kv->...qv", probabilities, value), probabilities
""",
    "SD-02": """
def scaled_dot_product_attention(q, k, v, mask=None):
    d = q.shape[-1]
    s = torch.matmul(q / d, k.mT)
    if mask is not None:
        s = s.masked_fill(mask == 0, float("-inf"))
    w = F.softmax(s, -1).nan_to_num(0)
    return w.matmul(v), w
""",
    "SD-08": """
def scaled_dot_product_attention(q, k, v, mask=None):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        s = s.masked_fill(~mask.bool(), float("-inf"))
    w = torch.softmax(s, dim=-2).nan_to_num(0)
    return w @ v, w
""",
    "MK-01": """
def scaled_dot_product_attention(q, k, v, mask=None):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        s = s + torch.zeros_like(s).masked_fill(mask.bool(), float("-inf"))
    w = torch.softmax(s, dim=-1)
    w = torch.where(w.isnan(), 0.0, w)
    return w @ v, w
""",
    "MK-50": """
def scaled_dot_product_attention(q, k, v, mask=None):
    w = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
    if mask is not None:
        w = w.masked_fill(~mask.bool(), 0)
    return torch.matmul(w, v), w
""",
    "SM-02": """
def softmax(x, dim=-1):
    p = torch.exp(x - torch.max(x))
    return p.div(p.sum(dim, True))
""",
    "SM-09": "def softmax(x, dim=-1):\n    return torch.softmax(x, -1)\n",
    "SM-01": "def softmax(x, dim=-1):\n    return x.exp() / x.exp().sum(dim=dim, keepdim=True)\n",
    "SD-17": """
def scaled_dot_product_attention(q, k, v, mask=None):
    s = q @ v.mT / q.shape[-1] ** 0.5
    if mask is not None:
        s = s.masked_fill(~mask.bool(), float("-inf"))
    w = torch.softmax(s, -1).nan_to_num(0)
    return w @ k, w
""",
    "SM-04": """
def softmax(x, dim=-1):
    e = (x - torch.amax(x.abs(), dim=dim, keepdim=True)).exp()
    return torch.div(e, torch.sum(e, dim, keepdim=True))
""",
    "SM-06": """
def softmax(x, dim=-1):
    low, _ = torch.min(x, dim=dim, keepdim=True)
    e = torch.exp(x - low)
    return e * (1 / e.sum(dim=dim, keepdim=True))
""",
    "SD-04": """
def scaled_dot_product_attention(q, k, v, mask=None):
    s = torch.einsum("...ld,...sd->...ls", q, k)
    if mask is not None:
        s = torch.where(mask != 0, s, -torch.inf)
    w = torch.softmax(s, -1).nan_to_num(0) * q.size(-1) ** -0.5
    return w @ v, w
""",
    "MK-14": """
def scaled_dot_product_attention(q, k, v, mask=None):
    s = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        s = s.masked_fill(mask == 0, torch.finfo(q.dtype).min)
    w = torch.softmax(s, -1)
    return w @ v, w
""",
}


def diagnosed(bench, code: str) -> set[str]:
    source = reference_source(bench.topic.text) + code
    tests = [item.test for item in bench.items]
    results = bench.run([Entry("answer", "", source)], tests, SECRET)["answer"]
    return set(bench.diagnoser(SECRET).slips(results).values())


@pytest.mark.parametrize("slip", REWRITTEN)
def test_a_mistake_in_another_hand_is_named(slip: str, bench):
    entry = next(e for e in bench.slips if e.id == slip)
    named = diagnosed(bench, REWRITTEN[slip])
    assert named and named <= {slip, *entry.same_as}


def test_a_mistake_that_is_not_known_is_not_named(bench):
    unknown = """
def scaled_dot_product_attention(q, k, v, mask=None):
    s = 0.37 * (q @ k.mT)
    if mask is not None:
        s = s.masked_fill(mask == 0, -torch.inf)
    w = torch.softmax(s, -1).nan_to_num(0)
    return w @ v, w
"""
    assert diagnosed(bench, unknown) == set()


def test_two_mistakes_in_two_functions_are_both_named(bench):
    two = REWRITTEN["SM-02"] + REWRITTEN["SD-01"]
    assert diagnosed(bench, two) == {"SM-02", "SD-01"}


def test_errors_are_equal_by_kind_and_sizes():
    first = LearnerError("f", ["RuntimeError"], "The size of tensor a (4) must match tensor b (7)")
    assert same_value(first, LearnerError("f", ["RuntimeError"], "sizes 4 and 7 do not match"))
    assert not same_value(first, LearnerError("f", ["RuntimeError"], "sizes 4 and 5 do not match"))
    assert not same_value(first, LearnerError("f", ["ValueError"], first.text))


def test_answers_of_any_form_can_be_compared():
    odd = [5, None, "x", [], {}, {1: 2}, {"1": 2}, {"kinds": 5}, {"outcome": torch.ones(2)}, torch.ones(2), Odd("x")]
    odd += [LearnerError("f", ["E"], ""), BadFrame("x"), float("nan"), torch.float32, (1,), {"kinds": [torch.ones(2)]}]
    for a in odd:
        for b in odd:
            assert isinstance(same_value(a, b), bool)
            same_value({"value": a}, {"value": b})
