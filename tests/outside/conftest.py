"""What the comparisons with other people's code share: the references, and a table of the largest differences.

`python -m pytest tests/outside` prints the table at its end. Nothing is downloaded: every model is built from a small
configuration and gets random weights.
"""

from __future__ import annotations

import os
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from autograder.cells import reference_source, run_source
from autograder.checks import tolerance
from autograder.course import CourseError, find_course

os.environ["HF_HUB_OFFLINE"] = "1"
ROWS = pytest.StashKey[list]()


@cache
def load(key: str) -> SimpleNamespace:
    """The names of a topic's reference. Skips the test while the topic is not written."""
    try:
        topic = find_course().topic(key)
    except CourseError:
        pytest.skip(f"{key} is not written yet")
    return SimpleNamespace(**run_source(reference_source(topic.text), f"{key} outside"))


@pytest.fixture
def topic():
    """`topic("03_multi_head").split_heads(...)`: the references."""
    return load


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def agree(request: pytest.FixtureRequest):
    """`agree(library, what, ours, theirs)`: equal up to rounding, and one row of the table."""
    rows = request.config.stash.setdefault(ROWS, [])

    def compare(library: str, what: str, ours: torch.Tensor, theirs: torch.Tensor, *, atol: float | None = None):
        assert ours.shape == theirs.shape, f"{library}, {what}: shapes {tuple(ours.shape)} and {tuple(theirs.shape)}"
        dtype = ours.dtype if ours.dtype.is_floating_point else torch.float32
        mine, other = ours.detach().double(), theirs.detach().double()
        assert torch.isfinite(mine).all() and torch.isfinite(other).all(), f"{library}, {what}: not finite"
        difference = (mine - other).abs().max().item()
        scale = other.abs().max().item()
        limit = tolerance(dtype, scale) if atol is None else atol
        rows.append((library, what, str(ours.dtype).removeprefix("torch."), difference, limit))
        assert difference <= limit, f"{library}, {what}: differ by {difference:.2g}, allowed {limit:.2g}"
        # Two tensors of zeros agree, too; a comparison of nothing shows nothing.
        assert scale > 0, f"{library}, {what}: all zeros"

    return compare


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    merged: dict[tuple[str, str, str], tuple[float, float, int]] = {}
    for library, what, dtype, difference, limit in rows:
        largest, allowed, count = merged.get((library, what, dtype), (-1.0, limit, 0))
        # The limit is shown of the input on which the largest difference was found.
        row = (difference, limit) if difference > largest else (largest, allowed)
        merged[library, what, dtype] = (*row, count + 1)
    terminalreporter.section("largest difference from code that is not ours")
    write = terminalreporter.write_line
    write(f"{'library':<29}{'what':<62}{'dtype':<10}{'inputs':>7}{'largest':>10}{'allowed':>10}")
    for (library, what, dtype), (largest, allowed, count) in sorted(merged.items()):
        write(f"{library:<29}{what:<62}{dtype:<10}{count:>7}{largest:>10.1e}{allowed:>10.1e}")
    write(f"{len({library for library, *_ in merged})} implementations, {len(merged)} comparisons")
