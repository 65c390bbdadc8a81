"""The fixed encoding of what crosses the sandbox's wall: tensors, plain values, handles, error text.

Both sides import this module, so it knows nothing of the grader. A frame is a JSON tree (the header) and a
safetensors block (the tensors that the tree names). Nothing is ever unpickled, and whatever does not fit the
encoding arrives as an :class:`Odd` with a sentence about it, because an odd answer is a finding and not a fault.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load as _load_tensors
from safetensors.torch import save as _save_tensors
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool,
        torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    )
}  # fmt: skip
MAX_DEPTH = 24
MAX_NODES = 20_000
MAX_TEXT = 20_000
MAX_DIMS = 16
MAX_ODD = 300
# Of a safetensors block: the table of contents at its beginning, which costs the reader more than its bytes.
MAX_TABLE = 1 << 20
# Elements of one expanded tensor, and of all in one frame: they cost the sender nothing and the receiver everything.
MAX_EXPANDED = 2**24
MAX_EXPANDED_SUM = 2**26


class BadFrame(Exception):
    """What came over the channel is not in the encoding; the message says where."""


@dataclass(frozen=True)
class Odd:
    """A value that can't cross, described in words (`a sparse tensor`, `a generator`)."""

    what: str


@dataclass(frozen=True)
class Handle:
    """An object that stays on the far side: its number and the name of its class."""

    number: int
    type_name: str


@dataclass(frozen=True)
class Callback:
    """A module whose forward the near side answers."""

    number: int


def readable(text: Any, limit: int) -> str:
    """Text from the far side as it may be stored and shown: at most so long, no control characters, no surrogates."""
    if not isinstance(text, str):
        return ""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text[:limit])


class Encoder:
    """Turns values into one frame; `keep` gets every object that has to stay behind and returns its handle."""

    def __init__(self, keep=None, *, grad: bool = True):
        self._keep = keep
        self._grad = grad
        self._tensors: dict[str, torch.Tensor] = {}
        self._seen: dict[int, dict] = {}
        self._alive: list[Any] = []
        self._nodes = 0

    def frame(self, value: Any) -> tuple[bytes, bytes]:
        # Within torch.func.grad every new tensor would be a wrapped one, whose values can't be read.
        with temporarily_clear_interpreter_stack():
            tree = self.tree(value, 0)
            header = json.dumps(tree, allow_nan=False, ensure_ascii=True).encode()
            return header, _save_tensors(self._tensors) if self._tensors else b""

    def tree(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return {"odd": "a value that is nested too deeply or has too many parts"}
        kind = type(value)
        if value is None or kind is bool:
            return value
        # Subclasses are what they derive from: numpy.float64, the members of an IntEnum. Asked of the type, since an
        # object may lie about its class.
        if issubclass(kind, str):
            return str.__str__(value)[:MAX_TEXT].encode("utf-8", "replace").decode()
        if issubclass(kind, int):
            number = int.__int__(value)
            return number if abs(number) < 2**63 else {"odd": "an integer of more than 64 bits"}
        if issubclass(kind, float):
            real = float.__float__(value)
            return real if math.isfinite(real) else {"f": repr(real)}
        if issubclass(kind, torch.Tensor):
            return self._tensor(value)
        return self._compound(value, kind, depth)

    def _compound(self, value: Any, kind: type, depth: int) -> Any:
        if kind in (list, tuple, torch.Size) or _is_named_tuple(kind):
            parts = [self.tree(item, depth + 1) for item in tuple(value)[: MAX_NODES + 1]]
            return {"l" if kind is list else "u": parts}
        if issubclass(kind, dict) and kind.__module__ in ("builtins", "collections"):
            return {"d": [[self.tree(k, depth + 1), self.tree(v, depth + 1)] for k, v in list(value.items())]}
        if kind is torch.dtype:
            return {"dtype": str(value).removeprefix("torch.")}
        if kind is torch.device:
            return {"device": str(value)}
        if kind is Handle:
            return {"h": value.number, "type": value.type_name}
        if kind is Callback:
            return {"cb": value.number}
        if kind is Odd:
            return {"odd": value.what[:MAX_TEXT]}
        if kind.__module__ == "numpy" and hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:
            return {"odd": f"a numpy {kind.__name__} where a Python number or a tensor belongs"}
        if self._keep is not None:
            handle = self._keep(value)
            return {"h": handle.number, "type": handle.type_name}
        return {"odd": f"an object of type {kind.__name__}"}

    def _tensor(self, tensor: torch.Tensor) -> dict:
        if id(tensor) in self._seen:
            return self._seen[id(tensor)]
        original = tensor
        while torch._C._functorch.is_gradtrackingtensor(tensor):  # inside torch.func.grad
            tensor = torch._C._functorch.get_unwrapped(tensor)
        problem = _why_not(tensor)
        if problem:
            return {"odd": problem}
        node = self._seen[id(original)] = self._dense(tensor)
        self._alive.append(original)
        return node

    def _dense(self, tensor: torch.Tensor) -> dict:
        # Strides cross as an order of the axes plus the expanded ones, so that transposed and broadcast
        # inputs are as non-contiguous on the far side as they were here.
        plain = tensor.detach()
        expanded = [i for i, (n, s) in enumerate(zip(plain.shape, plain.stride(), strict=True)) if n > 1 and s == 0]
        for axis in expanded:
            plain = plain.narrow(axis, 0, 1)
        strides = plain.stride()
        by_stride = sorted(range(plain.dim()), key=lambda axis: (-strides[axis], axis))
        order = None if plain.is_contiguous() else by_stride
        name = str(len(self._tensors))
        self._tensors[name] = (plain.permute(order) if order else plain).contiguous().clone()
        node: dict = {"t": name}
        if order and order != sorted(order):
            node["order"] = order
        if expanded:
            node["expand"] = list(tensor.shape)
        if tensor.requires_grad and self._grad:
            node["grad"] = True
        return node


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _why_not(tensor: torch.Tensor) -> str | None:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"a tensor subclass, {type(tensor).__name__}"
    if tensor.layout is not torch.strided:
        return "a sparse tensor"
    if tensor.is_quantized:
        return "a quantised tensor"
    if tensor.device.type != "cpu":
        return f"a tensor on the device {tensor.device}"
    if str(tensor.dtype).removeprefix("torch.") not in DTYPES:
        return f"a tensor of dtype {str(tensor.dtype).removeprefix('torch.')}"
    if tensor.dim() > MAX_DIMS:
        return f"a tensor of {tensor.dim()} dimensions"
    return None


def decode(header: bytes, body: bytes, *, resolve=None) -> Any:
    """The values of one frame.

    `resolve(Handle | Callback)` turns what stays on this side back into the object. Raises :class:`BadFrame`
    on anything that is not in the encoding.
    """
    try:
        tree = json.loads(header, parse_constant=_no_constant)
        tensors = _tensors_of(body)
    except BadFrame:
        raise
    except RecursionError:
        raise BadFrame("the header is nested too deeply") from None
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # safetensors raises types of its own, and a panic of Rust is no Exception
        raise BadFrame(f"unreadable frame: {type(error).__name__}") from None
    return _Decoder(tensors, resolve).value(tree, 0)


def _no_constant(name: str) -> Any:
    raise BadFrame(f"the header holds {name} as a bare number")


def _tensors_of(body: bytes) -> dict[str, torch.Tensor]:
    if not body:
        return {}
    if int.from_bytes(body[:8], "little") > MAX_TABLE:
        raise BadFrame("the block of tensors has too large a table")
    tensors = _load_tensors(body)
    bad = [str(t.dtype) for t in tensors.values() if t.dtype not in DTYPES.values()]
    if bad:
        raise BadFrame(f"a tensor of dtype {bad[0]} is not in the encoding")
    return tensors


class _Decoder:
    def __init__(self, tensors: dict[str, torch.Tensor], resolve):
        self._tensors = tensors
        self._built: dict[tuple, Any] = {}
        self._resolve = resolve
        self._nodes = 0
        self._expanded = 0

    def value(self, tree: Any, depth: int) -> Any:
        self._nodes += 1
        if depth > MAX_DEPTH + 1 or self._nodes > 4 * MAX_NODES:
            raise BadFrame("a value is nested too deeply or has too many parts")
        if tree is None or isinstance(tree, bool | float):
            return tree
        if isinstance(tree, int):
            return tree if abs(tree) < 2**63 else Odd("an integer of more than 64 bits")
        if isinstance(tree, str):
            return _whole(tree, MAX_TEXT)
        if not isinstance(tree, dict):
            raise BadFrame("a bare list is not in the encoding")
        return self._node(tree, depth)

    def _node(self, tree: dict, depth: int) -> Any:
        if "t" in tree:
            return self._tensor(tree)
        if "l" in tree or "u" in tree:
            parts = tree.get("l", tree.get("u"))
            if not isinstance(parts, list):
                raise BadFrame("a sequence without its parts")
            values = [self.value(part, depth + 1) for part in parts]
            return values if "l" in tree else tuple(values)
        if "d" in tree:
            return self._dict(tree["d"], depth)
        return self._leaf(tree)

    def _dict(self, pairs: Any, depth: int) -> dict:
        if not isinstance(pairs, list) or any(not isinstance(p, list) or len(p) != 2 for p in pairs):
            raise BadFrame("a dictionary without its pairs")
        result = {}
        for key, item in pairs:
            name = self.value(key, depth + 1)
            if not isinstance(name, str | int | float | bool | None):
                name = f"a key of type {type(name).__name__}"
            result[name] = self.value(item, depth + 1)
        return result

    def _leaf(self, tree: dict) -> Any:
        if "f" in tree and tree["f"] in ("nan", "inf", "-inf"):
            return float(tree["f"])
        if "dtype" in tree and isinstance(tree["dtype"], str):
            return DTYPES.get(tree["dtype"], Odd(f"the dtype {readable(tree['dtype'], 40)}"))
        if "device" in tree and isinstance(tree["device"], str):
            return _device(tree["device"])
        if "odd" in tree and isinstance(tree["odd"], str):
            return Odd(readable(tree["odd"], MAX_ODD))
        if "h" in tree and type(tree["h"]) is int:
            handle = Handle(tree["h"], readable(tree.get("type"), 80) or "object")
            return self._resolve(handle) if self._resolve else handle
        if "cb" in tree and type(tree["cb"]) is int:
            return self._resolve(Callback(tree["cb"])) if self._resolve else Callback(tree["cb"])
        raise BadFrame(f"unknown node with keys {sorted(map(str, tree))[:4]}")

    def _tensor(self, tree: dict) -> Any:
        name, order, shape = tree["t"], _axes(tree, "order"), _axes(tree, "expand")
        if not isinstance(name, str) or name not in self._tensors:
            raise BadFrame("a tensor is named and was not sent")
        key = (name, order, shape, tree.get("grad") is True)
        if key not in self._built:
            self._built[key] = self._build(*key)
        return self._built[key]

    def _build(self, name: str, order: tuple | None, shape: tuple | None, grad: bool) -> Any:
        tensor = self._tensors[name]
        try:
            if order is not None:
                tensor = tensor.permute([order.index(i) for i in range(len(order))])
            if shape is not None:
                self._expanded += math.prod(shape)
                if math.prod(shape) > MAX_EXPANDED or self._expanded > MAX_EXPANDED_SUM:
                    return Odd(f"an expanded tensor of shape {shape}")
                tensor = tensor.expand(shape)
        except (ValueError, TypeError, RuntimeError, OverflowError):
            raise BadFrame("a tensor's axes don't fit its data") from None
        if grad and tensor.dtype.is_floating_point:
            # One sent tensor may stand in two places, of which one asks for gradients.
            tensor = tensor.detach().requires_grad_()
        return tensor


def _axes(tree: dict, key: str) -> tuple[int, ...] | None:
    """A list of sizes or axes, short and of plain integers."""
    if key not in tree:
        return None
    numbers = tree[key]
    if not isinstance(numbers, list) or len(numbers) > MAX_DIMS:
        raise BadFrame(f"{key} is not a short list")
    if any(type(n) is not int or not 0 <= n < 2**63 for n in numbers):
        raise BadFrame(f"{key} holds something else than sizes")
    return tuple(numbers)


def _whole(text: str, limit: int) -> str:
    """At most so much of a text, without the halves of surrogate pairs, which no file can hold."""
    return text[:limit].encode("utf-8", "replace").decode()


def _device(text: str) -> Any:
    try:
        return torch.device(text[:40])
    except (RuntimeError, ValueError, TypeError):
        return Odd(f"the device {readable(text, 40)}")
