"""The kernel's end of the channel: calls the learner's names and answers with data, never with a verdict.

Runs inside the sandbox next to hostile code, so nothing here is trusted and nothing here is secret. The same class
serves the reference and the known mistakes inside the grader, which keeps both sides of a comparison alike.
"""

from __future__ import annotations

import contextlib
import linecache
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autograder.codec import Callback, Encoder, Handle, Odd, decode
from autograder.sandbox import fake

PREFIX = struct.Struct("!IQ")
MAX_ERROR_TEXT = 2_000


class Stub:
    """Answers requests about one namespace.

    ask: sends a frame to the grader and returns its answer; used when a module handed in by the grader is called.
    """

    def __init__(self, namespace: dict[str, Any], ask: Callable[[bytes, bytes], tuple[bytes, bytes]] | None = None):
        self._namespace = namespace
        self._ask = ask
        self._objects: dict[int, Any] = {}

    def answer(self, header: bytes, body: bytes) -> tuple[bytes, bytes]:
        request = decode(header, body, resolve=self._resolve)
        reply: dict[str, Any] = {"id": request["id"]}
        try:
            reply["value"] = getattr(self, "_op_" + request["op"])(request)
        except BaseException as error:  # KeyboardInterrupt and SystemExit of learner code are answers, too
            reply["error"] = describe(error)
        return Encoder(self._keep, grad=False).frame(reply)

    # -- operations ---------------------------------------------------------------------------------------------

    def _op_names(self, request: dict) -> dict:
        return {name: type(self._namespace[name]).__name__ for name in request["names"] if name in self._namespace}

    def _op_call(self, request: dict) -> Any:
        return self._target(request)(*request["args"], **request["kwargs"])

    def _op_effects(self, request: dict) -> dict:
        """Call, and report what else the call changed."""
        tensors = [t for t in tree_leaves((request["args"], request["kwargs"])) if isinstance(t, torch.Tensor)]
        before = [t.detach().clone() for t in tensors]
        versions = [t._version for t in tensors]
        state = _global_state()
        value = self._op_call(request)
        changed = [
            i
            for i, (t, b, v) in enumerate(zip(tensors, before, versions, strict=True))
            if t._version != v or not torch.equal(torch.nan_to_num(t.detach()), torch.nan_to_num(b))
        ]
        after = _global_state()
        return {
            "value": value,
            "changed_inputs": changed,
            "changed_state": [name for name in state if not _same(state[name], after[name])],
        }

    def _op_backward(self, request: dict) -> dict:
        """Forward and backward; the loss is the sum of the first floating output times a cotangent."""
        inputs = [t for t in tree_leaves((request["args"], request["kwargs"])) if _wants_grad(t)]
        target = self._target(request)
        named = dict(target.named_parameters()) if isinstance(target, torch.nn.Module) else {}
        for tensor in [*inputs, *named.values()]:
            tensor.grad = None
        value = target(*request["args"], **request["kwargs"])
        output = next(t for t in tree_leaves(value) if isinstance(t, torch.Tensor) and t.dtype.is_floating_point)
        cotangent = request.get("cotangent")
        if cotangent is None:
            cotangent = torch.cos(torch.arange(output.numel(), dtype=torch.float64)).view(output.shape)
        if output.requires_grad:
            (output * cotangent.to(output.dtype)).sum().backward()
        return {
            "value": value,
            "inputs": [t.grad for t in inputs],
            "parameters": {name: p.grad for name, p in named.items()},
        }

    def _op_fake(self, request: dict) -> dict:
        return fake.run(self._target(request), request["args"], request["kwargs"])

    def _op_largest(self, request: dict) -> dict:
        """Call without gradients and report the elements of the largest tensor that any operator made."""
        with _LargestTensor() as seen, torch.no_grad():
            value = self._op_call(request)
        return {"value": value, "largest": seen.largest}

    def _op_get(self, request: dict) -> Any:
        target = self._target(request)
        for part in request["path"].split("."):
            target = target[int(part)] if part.isdigit() else getattr(target, part)
        return target

    def _op_state(self, request: dict) -> dict:
        module = self._module(request)
        return {
            "parameters": {n: p.detach().clone() for n, p in module.named_parameters()},
            "buffers": {n: b.detach().clone() for n, b in module.named_buffers()},
            "trainable": {n: bool(p.requires_grad) for n, p in module.named_parameters()},
        }

    def _op_load(self, request: dict) -> None:
        module = self._module(request)
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        for name, tensor in request["weights"].items():
            if name not in own:
                raise AttributeError(f"{type(module).__name__} has no parameter {name!r}; it has {sorted(own)}")
            if own[name].shape != tensor.shape:
                raise ValueError(
                    f"{name} has the shape {tuple(own[name].shape)}, but {tuple(tensor.shape)} was expected"
                )
            with torch.no_grad():
                own[name].copy_(tensor)

    def _op_torch(self, request: dict) -> Any:
        """Build one of torch's own modules, for tests that hand one to the learner's code."""
        return getattr(torch.nn, request["class"])(*request["args"], **request["kwargs"])

    def _op_begin(self, request: dict) -> None:
        self._objects.clear()
        # What one test's call left switched, such as gradients, must not reach the next test.
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(request["seed"])

    # -- objects that stay here -----------------------------------------------------------------------------------

    def _target(self, request: dict) -> Any:
        target = request["target"]
        if isinstance(target, str):
            if target not in self._namespace:
                raise NameError(f"the name {target!r} is not defined")
            target = self._namespace[target]
        method = request.get("method")
        return getattr(target, method) if method else target

    def _module(self, request: dict) -> torch.nn.Module:
        module = self._target(request)
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"expected an nn.Module, got {type(module).__name__}")
        return module

    def _keep(self, value: Any) -> Handle:
        number = id(value)
        self._objects[number] = value
        return Handle(number, type(value).__name__[:80])

    def _resolve(self, reference: Handle | Callback) -> Any:
        if isinstance(reference, Callback):
            return _AnsweredByGrader(reference.number, self._ask)
        return self._objects[reference.number]


class _AnsweredByGrader(torch.nn.Module):
    """A module whose forward goes back over the channel."""

    def __init__(self, number: int, ask):
        super().__init__()
        self._number, self._ask_grader = number, ask

    def forward(self, *args, **kwargs):
        frame = Encoder(lambda value: Handle(0, type(value).__name__), grad=False).frame(
            {"callback": self._number, "args": list(args), "kwargs": kwargs}
        )
        reply = decode(*self._ask_grader(*frame))
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["value"]


class _LargestTensor(TorchDispatchMode):
    """Watches every operator below autograd, and keeps the size of the largest storage that one returned."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                elements = tensor.untyped_storage().nbytes() // max(1, tensor.element_size())
                self.largest = max(self.largest, elements)
        return result


def _wants_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _global_state() -> dict[str, Any]:
    return {
        "random state": torch.get_rng_state(),
        "default dtype": str(torch.get_default_dtype()),
        "gradient mode": torch.is_grad_enabled(),
    }


def _same(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def describe(error: BaseException) -> dict[str, Any]:
    """Class names, message and place of an exception, as data; the place is the innermost line of learner code."""
    try:
        text = str(error)
    except Exception:
        text = "(the error's own text could not be made)"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "ipykernel" in f.filename or f.filename.startswith(("<course", "/work/learner"))]
    place = own[-1] if own else None
    return {
        "kinds": [cls.__name__[:80] for cls in type(error).__mro__ if cls is not object][:10],
        "text": text[:MAX_ERROR_TEXT],
        "function": place.name[:80] if place else None,
        "line": (place.line or linecache.getline(place.filename, place.lineno or 0)).strip()[:200] if place else None,
    }


# -- the loop that serves a socket, inside the kernel ---------------------------------------------------------------


def serve(namespace: dict[str, Any], connection: socket.socket) -> None:
    """Answer requests until the grader closes its end."""

    def ask(header: bytes, body: bytes) -> tuple[bytes, bytes]:
        _send(connection, header, body)
        return _receive(connection)

    stub = Stub(namespace, ask)
    with contextlib.suppress(EOFError, OSError):
        while True:
            header, body = _receive(connection)
            _send(connection, *stub.answer(header, body))
            sys.stdout.flush()


def _send(connection: socket.socket, header: bytes, body: bytes) -> None:
    connection.sendall(PREFIX.pack(len(header), len(body)) + header)
    connection.sendall(body)


def _receive(connection: socket.socket) -> tuple[bytes, bytes]:
    header_size, body_size = PREFIX.unpack(_exactly(connection, PREFIX.size))
    return _exactly(connection, header_size), _exactly(connection, body_size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


__all__ = ["Odd", "Stub", "describe", "serve"]
