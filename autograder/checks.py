"""What a hidden test is written with: the item marker, inputs, comparisons, and messages that a learner can use.

A message never holds an expected value or the text of a test: it says what kind of difference there is, and how big.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from autograder.codec import Odd
from autograder.probe import FakeRun, Learner, LearnerError, NotAnswered, Remote

item = pytest.mark.item
"""`@item("grade_id", points=2, title="...", hint="...")`: which cell a test scores, and what the learner reads."""

# A correct formula in another order of operations differs by a few units in the last place, more after long sums.
# Measured over the known right answers on N(0,1) inputs: at most 7e-7 in float32 (6 eps), 9.8e-4 in float16 (1 eps),
# 1.6e-2 in bfloat16 (2 eps). Four eps in half precision and 64 in the others leave room for sums of some hundred terms.
_EPS_ALLOWED = {torch.float16: 4, torch.bfloat16: 4, torch.float32: 64, torch.float64: 2**16}


class CheckFailed(AssertionError):
    """The answer is wrong; the message is for the learner."""


class NotVerified(Exception):
    """Neither right nor wrong can be shown on this machine; the message says why."""


def tolerance(dtype: torch.dtype, scale: float = 1.0) -> float:
    """Largest absolute difference that counts as equal, for values of about `scale`."""
    return _EPS_ALLOWED[dtype] * torch.finfo(dtype).eps * max(1.0, scale)


class Inputs:
    """Random inputs of one test; the same seed gives the same inputs."""

    def __init__(self, seed: int):
        self.seed = seed
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32, std: float = 1.0) -> torch.Tensor:
        """N(0, std^2) of the given shape, drawn in float64 so that every dtype sees the same numbers."""
        return (std * torch.randn(shape, generator=self._generator, dtype=torch.float64)).to(dtype)

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """Uniform integers in [low, high)."""
        return torch.randint(low, high, shape, generator=self._generator)

    def mask(self, *shape: int, keep: float = 0.6) -> torch.Tensor:
        """A boolean mask with True where attention may look; every row keeps at least one key and blocks one."""
        mask = torch.rand(shape, generator=self._generator) < keep
        kept = torch.randint(0, shape[-1], (*shape[:-1], 1), generator=self._generator)
        mask.scatter_(-1, kept, True)
        return mask.scatter_(-1, (kept + 1) % shape[-1], False) if shape[-1] > 1 else mask


def check(condition: bool, message: str) -> None:
    """Fail with the message unless the condition holds."""
    if not condition:
        raise CheckFailed(message)


def check_tensor(got: Any, shape: Sequence[int], what: str = "the output", dtype: torch.dtype | None = None) -> None:
    """Fail unless `got` is a tensor of the shape (and dtype)."""
    if not isinstance(got, torch.Tensor):
        raise CheckFailed(f"{what} should be a tensor, but it is {_name(got)}.")
    if tuple(got.shape) != tuple(shape):
        raise CheckFailed(f"{what} has the shape {tuple(got.shape)}; expected {tuple(shape)}.")
    if dtype is not None and got.dtype != dtype:
        raise CheckFailed(f"{what} has the dtype {_short(got.dtype)}; expected {_short(dtype)}.")


def check_close(
    got: Any,
    expected: torch.Tensor,
    what: str = "the output",
    *,
    dtype: torch.dtype | None = None,
    atol: float | None = None,
    hint: str = "",
) -> None:
    """Fail unless `got` equals `expected` in shape, dtype and value.

    dtype: the dtype that `got` must have; default that of `expected`. A reference in float64 may be handed in for an
    answer in half precision. atol: default `tolerance(dtype, largest magnitude of expected)`.
    """
    dtype = dtype or expected.dtype
    check_tensor(got, expected.shape, what, dtype)
    if not dtype.is_floating_point:
        wrong = (got != expected).sum().item()
        if wrong:
            raise CheckFailed(_sentence(f"{wrong} of {got.numel()} entries of {what} are wrong", hint))
        return
    got64, expected64 = got.detach().double(), expected.detach().double()
    _check_finite(got64, expected64, what, hint)
    finite = torch.isfinite(expected64)
    difference = torch.where(finite, (got64 - expected64).abs(), torch.zeros(()).double())
    scale = expected64[finite].abs().max().item() if finite.any() else 1.0
    limit = tolerance(dtype, scale) if atol is None else atol
    if difference.numel() and difference.max().item() > limit:
        wrong = int((difference > limit).sum())
        text = f"{wrong} of {got.numel()} entries of {what} are wrong; the largest difference is "
        raise CheckFailed(_sentence(text + f"{difference.max().item():.2g} (allowed: {limit:.1g})", hint))


def _check_finite(got: torch.Tensor, expected: torch.Tensor, what: str, hint: str) -> None:
    for name, test in (("NaN", torch.isnan), ("infinite", torch.isinf)):
        extra = int((test(got) & ~test(expected)).sum())
        if extra:
            raise CheckFailed(_sentence(f"{extra} of {got.numel()} entries of {what} are {name}", hint))
    infinite = torch.isinf(expected)
    if infinite.any() and not torch.equal(got[infinite], expected[infinite]):
        text = f"entries of {what} that should be infinite are finite or of the wrong sign"
        raise CheckFailed(_sentence(text, hint))


def check_finite(got: Any, what: str, hint: str = "") -> None:
    """Fail if a tensor holds NaN or an infinity."""
    check(isinstance(got, torch.Tensor), f"{what} should be a tensor, but it is {_name(got)}.")
    _check_finite(got.double(), torch.zeros_like(got.double()), what, hint)


def check_gradient(got: Any, expected: torch.Tensor, what: str, *, atol: float | None = None, hint: str = "") -> None:
    """Fail unless a gradient arrived and equals the expected one."""
    if got is None:
        raise CheckFailed(_sentence(f"no gradient reaches {what}", hint or "Is the graph cut (detach, .data, numpy)?"))
    check_close(got, expected, f"the gradient of {what}", atol=atol, hint=hint)


def as_pair(value: Any, what: str = "the result", parts: str = "(output, weights)") -> tuple[Any, Any]:
    """The two parts of a result; fails with a sentence when there are not two."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise CheckFailed(f"{what} should be the pair {parts}, but it is {_name(value)}.")
    return value[0], value[1]


@contextmanager
def expect_error(what: str, *kinds: str, mentions: Sequence[Any] = ()) -> Iterator[None]:
    """Fail unless the block raises one of the exception kinds (default ValueError or AssertionError; "any" for any).

    mentions: numbers or words of which each must stand in the message.
    """
    allowed = kinds or ("ValueError", "AssertionError")
    try:
        yield
    except LearnerError as error:
        if "any" not in allowed and not set(error.kinds) & set(allowed):
            wanted = " or ".join(allowed)
            raise CheckFailed(f"{what} should raise {wanted}, but it raised {error.kinds[0]}: {error.text}") from None
        missing = [str(word) for word in mentions if str(word) not in error.text]
        if missing:
            said = f"`{error.text[:120]}`" if error.text.strip() else "no message"
            raise CheckFailed(
                f"{what} raises, as it should, but it does not name {', '.join(missing)}: whoever reads {said} "
                "can't see what was wrong."
            ) from None
        return
    raise CheckFailed(f"{what} should raise an error that names the sizes, but it returned something.")


def check_unchanged(learner: Learner, target: str | Remote, *args: Any, **kwargs: Any) -> Any:
    """Call; fail if an input tensor or global state was changed; return the value."""
    effects = learner.effects(target, *args, **kwargs)
    check(not effects.changed_inputs, "an input tensor was changed in place. Work on a new tensor.")
    check(not effects.changed_state, f"the call changed global state: {', '.join(map(str, effects.changed_state))}.")
    return effects.value


def check_any_device(learner: Learner, target: str | Remote, *args: Any, **kwargs: Any) -> FakeRun:
    """Fail unless the call runs when all its tensors are on another device; NotVerified where that can't be decided."""
    run = learner.on_fake_device(target, *args, **kwargs)
    if run.message.startswith("NotImplementedError"):
        raise NotAnswered(f"`{target if isinstance(target, str) else target.type_name}` is still the stub.")
    if run.outcome == "undecided":
        raise NotVerified(
            f"This code's path depends on values, so it could not be tried without a GPU ({run.message})."
        )
    if run.outcome == "mismatch":
        raise CheckFailed(
            "the code mixes two devices: on a GPU a tensor that it makes would stay on the CPU. "
            "Make new tensors with device=x.device, and register constants of a module as buffers."
        )
    check(run.outcome == "ok", f"the code does not run on another device: {run.message}")
    check(bool(run.devices), "the output holds no tensor.")
    check(all(d == "cpu:1" for d in run.devices), "the output is not on the device of the inputs.")
    return run


def _name(value: Any) -> str:
    if isinstance(value, Odd):
        return value.what
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, Remote):
        return f"an object of type {value.type_name}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"the number {value}"
    return "None" if value is None else f"of type {type(value).__name__}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _sentence(text: str, hint: str) -> str:
    return f"{text}. {hint}".strip()
