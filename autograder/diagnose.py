"""Names the mistake: an answer that equals a known mistake's on the same inputs is that mistake.

Stage one runs the known mistakes on the tests that the learner failed and keeps those whose answers are equal, call by
call. Stage two runs the kept ones on the other tests, since a mistake that would have failed a test that the learner
passed is not the learner's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from autograder.codec import Odd
from autograder.hidden import Result
from autograder.probe import LearnerError, Remote
from autograder.verdict import Outcome

# Two programs of the same wrong formula differ by rounding, two formulas by far more: the inputs are random.
SAME_RTOL = {torch.float16: 2e-2, torch.bfloat16: 6e-2, torch.float32: 1e-3, torch.float64: 1e-6}
FAILED = (Outcome.FAIL, Outcome.ERROR)

Run = Callable[[Iterable[str], Iterable[str]], dict[str, dict[str, Result]]]


class Diagnoser:
    """Compares failed tests with the known mistakes of one topic under one secret.

    order: the ids of the mistakes. run(ids, tests): their results. tests: those that are quick enough to diagnose.
    """

    def __init__(self, order: Iterable[str], tests: Iterable[str], run: Run):
        self._order, self._tests, self._run = tuple(order), tuple(tests), run
        self._known: dict[tuple[str, str], Result] = {}

    def preload(self, table: dict[str, dict[str, Result]]) -> None:
        """Take over results that are already there, by id and test."""
        self._known.update({(i, t): r for i, results in table.items() for t, r in results.items()})

    def slips(self, results: dict[str, Result]) -> dict[str, str]:
        """The id of the mistake behind each failed test that equals one: {test: id}."""
        failed = [t for t in self._tests if t in results and results[t].outcome in FAILED]
        if not failed or not self._order:
            return {}
        kept: list[str] = []
        for test in failed:
            # Most submissions hold one mistake: where one found before explains this test, too, no other is run.
            self._learn(kept, [test])
            if not any(same_mistake(results[test], self._known[i, test]) for i in kept):
                self._learn(self._order, [test])
                kept += [i for i in self._order if same_mistake(results[test], self._known[i, test])]
        self._learn(kept, failed)
        matches = {i: [t for t in failed if same_mistake(results[t], self._known[i, t])] for i in kept}
        rest = [t for t in self._tests if t in results and t not in failed]
        self._learn(kept, rest)
        misfit = {i: self._misfit(i, results, failed, rest) for i in kept}
        best = {}
        for test in failed:
            candidates = [i for i in kept if test in matches[i]]
            if candidates:
                best[test] = min(candidates, key=lambda i: (misfit[i] - len(matches[i]), self._order.index(i)))
        return best

    def _misfit(self, identity: str, results: dict[str, Result], failed: list[str], rest: list[str]) -> int:
        """How many tests tell the mistake from the learner's answer."""
        differs = sum(
            self._known[identity, t].outcome in FAILED and not same_mistake(results[t], self._known[identity, t])
            for t in failed
        )
        return differs + sum(
            self._known[identity, t].outcome in FAILED for t in rest if results[t].outcome is Outcome.PASS
        )

    def _learn(self, ids: Iterable[str], tests: Iterable[str]) -> None:
        ids, tests = list(ids), list(tests)
        missing = [t for t in tests if any((i, t) not in self._known for i in ids)]
        if not missing or not ids:
            return
        for identity, outcomes in self._run(ids, missing).items():
            for test in missing:
                self._known[identity, test] = outcomes.get(test, Result())


def same_mistake(mine: Result, known: Result) -> bool:
    """Whether two failed results came from the same answers."""
    if (
        mine.outcome not in FAILED
        or known.outcome is not mine.outcome
        or not mine.trace
        or len(mine.trace) != len(known.trace)
    ):
        return False
    return all(a[0] == b[0] and same_value(a[1], b[1]) for a, b in zip(mine.trace, known.trace, strict=True))


def same_value(a: Any, b: Any) -> bool:
    """Equality of two answers up to rounding; errors are equal when they are of the same kind."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return _same_tensor(a, b)
    if isinstance(a, LearnerError) and isinstance(b, LearnerError):
        return _same_error(a, b)
    if isinstance(a, Exception) and isinstance(b, Exception):
        return type(a) is type(b) and str(a) == str(b)
    if isinstance(a, dict) and isinstance(b, dict):
        if a.get("outcome") == "error":
            return False  # what broke on the imaginary device is in the text alone
        pairs = zip(a.items(), b.values(), strict=False)
        return list(map(str, a)) == list(map(str, b)) and all(same_value(x, y) for (k, x), y in pairs if k != "message")
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= 1e-4 * max(abs(a), abs(b))
    if isinstance(a, Odd | Remote) and isinstance(b, Odd | Remote):
        return type(a) is type(b)
    return type(a) is type(b) and bool(a == b)


def _same_error(a: LearnerError, b: LearnerError) -> bool:
    """The same kind, and the same numbers in the text: torch names the sizes that did not fit, whatever the formula."""
    if a.kinds[0] != b.kinds[0]:
        return False
    numbers = [re.findall(r"\d+", error.text) for error in (a, b)]
    return sorted(numbers[0]) == sorted(numbers[1]) if any(numbers) else a.text == b.text


def _same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.dtype.is_floating_point:
        return torch.equal(a, b)
    rtol = SAME_RTOL[a.dtype]
    x, y = a.detach().double(), b.detach().double()
    finite = y[torch.isfinite(y)]
    scale = finite.abs().max().item() if finite.numel() else 1.0
    # Entries near zero are sums in which larger terms cancel: in half precision they keep the error of those.
    atol = scale * max(rtol * 0.01, 4 * torch.finfo(a.dtype).eps)
    return bool(torch.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True))
