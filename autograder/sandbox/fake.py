"""Runs learner code on fake tensors of a second, imaginary device, where mixing devices raises.

That is how "runs on a GPU" is decided on a machine without one: `FakeTensorMode` tracks the device of every tensor
and computes no values. The device is `cpu:1`; a fake `cuda` device misbehaves on CPU-only builds of torch.
"""

from __future__ import annotations

import copy
import logging
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("cpu:1")
UNDECIDED = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)


def run(target: Any, args: list, kwargs: dict) -> dict[str, Any]:
    """What the call does on the imaginary device: `outcome`, `message`, and the devices and dtypes of its tensors.

    outcome: `ok`, `mismatch` (two devices met), `error` (something else raised) or `undecided` (code whose shapes or
    branches depend on data, which no fake tensor can run).
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode, _IndexKept(), _quiet():
            moved = _moved(target, mode)
            value = moved(*_faked(args, mode), **_faked(kwargs, mode))
    except UNDECIDED as error:
        return {"outcome": "undecided", "message": f"{type(error).__name__}"}
    except Exception as error:
        outcome = _kind_of(error)
        if outcome == "mismatch" and _reads_device_type(target):
            outcome = "undecided"
        return {"outcome": outcome, "message": f"{type(error).__name__}: {error}"[:500]}
    tensors = [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
    return {
        "outcome": "ok",
        "message": "",
        "devices": [str(t.device) for t in tensors],
        "dtypes": [t.dtype for t in tensors],
        "shapes": [tuple(int(n) for n in t.shape) for t in tensors],
    }


@contextmanager
def _quiet():
    """A failing operator is an outcome here; torch would log its whole traceback."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _kind_of(error: Exception) -> str:
    text = f"{type(error).__name__} {error}"
    if "DeviceMismatch" in text or ("device" in text and "cpu:1" in text):
        return "mismatch"
    undecided = ("data-dependent", "data_ptr", ".numpy()", "Cannot access data pointer", ".item()", "FakeTensor")
    return "undecided" if any(word in text for word in undecided) else "error"


def _reads_device_type(target: Any) -> bool:
    """Whether the code reads `.device.type`: legal on a GPU, but here it gives a bare `cpu` without the index."""
    function = getattr(type(target), "forward", target) if isinstance(target, torch.nn.Module) else target
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    pending: list[Any] = [code]
    seen: list[Any] = []
    while pending:
        code = pending.pop()
        if code is None or code in seen or len(seen) > 200:
            continue
        seen.append(code)
        if {"device", "type"} <= set(code.co_names):
            return True
        pending += [c for c in code.co_consts if hasattr(c, "co_names")]
        spaces = getattr(function, "__globals__", {})
        pending += [getattr(spaces.get(name), "__code__", None) for name in code.co_names]
    return False


def _faked(values: Any, mode: FakeTensorMode) -> Any:
    def one(value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            return _moved(value, mode)
        if isinstance(value, torch.device):
            return DEVICE
        return _fake(value, mode) if isinstance(value, torch.Tensor) else value

    return tree_map(one, values)


def _fake(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    with mode:
        result = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=DEVICE)
        return result.requires_grad_(tensor.requires_grad)


def _moved(target: Any, mode: FakeTensorMode) -> Any:
    """A copy of a module whose registered parameters and buffers are on the device; what is not registered stays.

    `Module.to` fails under a fake mode, hence by hand.
    """
    owner = target
    if not isinstance(owner, torch.nn.Module):
        return target
    with _no_fake():
        module = copy.deepcopy(owner)
    for part in module.modules():
        for name, parameter in list(part._parameters.items()):
            if parameter is not None:
                part._parameters[name] = torch.nn.Parameter(_fake(parameter.detach(), mode), parameter.requires_grad)
        for name, buffer in list(part._buffers.items()):
            if buffer is not None:
                part._buffers[name] = _fake(buffer, mode)
    return module


def _no_fake():
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    return unset_fake_temporarily()


class _IndexKept(TorchFunctionMode):
    """Puts results where they belong: several constructors and conversions drop the index of `cpu:1`."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        args, kwargs = _without_number(function, args, kwargs or {})
        result = function(*args, **kwargs)
        if function is torch.Tensor.type and len(args) == 1 and args[0].device == DEVICE:
            return _TypeThere(result)
        belongs = _place(function, args, kwargs)
        if belongs is None or not isinstance(result, torch.Tensor) or result.device == belongs:
            return result
        # Made anew, since `.to` leaves a literal where it is.
        return torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=belongs)


class _TypeThere(str):
    """What `x.type()` gives for a tensor on the imaginary device; on a GPU this names the GPU."""


def _without_number(function: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """A number stands for an accelerator, as in `device=x.get_device()`."""
    if isinstance(kwargs.get("device"), int):
        kwargs = {**kwargs, "device": DEVICE}
    if function is torch.Tensor.to and len(args) > 1 and isinstance(args[1], int):
        args = (args[0], DEVICE, *args[2:])
    return args, kwargs


def _place(function: Any, args: tuple, kwargs: dict) -> torch.device | None:
    """The device of the result, where torch may miss it; None elsewhere."""
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    own = data.device if isinstance(data, torch.Tensor) else torch.device("cpu")
    if function in (torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor, torch.Tensor.new):
        asked = kwargs.get("device")
    elif function in (torch.Tensor.to, torch.Tensor.type_as, torch.Tensor.type):
        given = [*args[1:2], *(kwargs[name] for name in ("device", "other") if name in kwargs)]
        asked = next((value for value in given if isinstance(value, torch.device | torch.Tensor | str)), None)
    else:
        return None
    if isinstance(asked, torch.Tensor):
        return asked.device
    if isinstance(asked, _TypeThere):
        return DEVICE
    return own if asked is None or function is torch.Tensor.type else torch.device(asked)
