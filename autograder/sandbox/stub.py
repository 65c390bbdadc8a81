"""The kernel's end of the channel: calls the learner's names and answers with data, never with a verdict.

Runs inside the sandbox next to hostile code, so nothing here is trusted and nothing here is secret. The same class
serves the reference and the known mistakes inside the grader, which keeps both sides of a comparison alike.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import socket
import struct
import traceback
import weakref
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autograder.codec import Callback, Encoder, Handle, Odd, decode
from autograder.sandbox import fake

PREFIX = struct.Struct("!IQ")
MAX_ERROR_TEXT = 2_000
KEEPS = type(functools.lru_cache(lambda: None))


class Stub:
    """Answers requests about one namespace.

    ask: sends a frame to the grader and returns its answer; used when a module handed in by the grader is called.
    more: operations besides those of this class.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        ask: Callable[[bytes, bytes], tuple[bytes, bytes]] | None = None,
        more: dict[str, Callable[[dict], Any]] | None = None,
    ):
        self._namespace = namespace
        self._ask = ask
        self._more = more or {}
        self._objects: dict[int, Any] = {}

    def answer(self, header: bytes, body: bytes) -> tuple[bytes, bytes]:
        request = decode(header, body, resolve=self._resolve)
        reply: dict[str, Any] = {"id": request["id"]}
        try:
            operation = self._more.get(request["op"]) or getattr(self, "_op_" + request["op"])
            reply["value"] = operation(request)
        except BaseException as error:  # KeyboardInterrupt and SystemExit of learner code are answers, too
            reply["error"] = describe(error)
        try:
            return Encoder(self._keep, grad=False).frame(reply)
        except BaseException as error:  # an answer that can't even be looked at, such as an object that lies
            return Encoder().frame({"id": request["id"], "error": describe(error)})

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
        with _empty_caches(self._namespace):
            return fake.run(self._target(request), request["args"], request["kwargs"])

    def _op_largest(self, request: dict) -> dict:
        """Call without gradients; report the elements of the largest tensor made, and of all alive at one time."""
        inputs = [t for t in tree_leaves((request["args"], request["kwargs"])) if isinstance(t, torch.Tensor)]
        with _Memory(inputs) as seen, torch.no_grad():
            value = self._op_call(request)
        return {"value": value, "largest": seen.largest, "peak": seen.peak}

    def _op_pretend(self, request: dict) -> Any:
        """Call as if this machine had just the accelerators in `devices`: `cuda`, `mps`."""
        with _empty_caches(self._namespace), _pretended(self._namespace, request["devices"]):
            return self._target(request)(*request["args"], **request["kwargs"])

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
        # Not torch.manual_seed, which keeps a note with a whole stack for each kind of device that may start later.
        torch.default_generator.manual_seed(request["seed"])

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


class _Memory(TorchDispatchMode):
    """Watches every operator below autograd: the elements of the largest storage made, and of all alive at one time.

    Views of the inputs are not made. What a kernel uses inside is not seen.
    """

    def __init__(self, inputs: list[torch.Tensor]):
        super().__init__()
        self.largest = self.peak = self._alive = 0
        self._known = {t.untyped_storage()._cdata for t in inputs}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor.untyped_storage(), tensor.element_size())
        return result

    def _note(self, storage: torch.UntypedStorage, element_size: int) -> None:
        key = storage._cdata
        if key in self._known:
            return
        elements = storage.nbytes() // max(1, element_size)
        self._known.add(key)
        self._alive += elements
        self.largest, self.peak = max(self.largest, elements), max(self.peak, self._alive)
        weakref.finalize(storage, self._gone, key, elements)

    def _gone(self, key: int, elements: int) -> None:
        self._known.discard(key)
        self._alive -= elements


class _OnTheCpu(TorchFunctionMode):
    """Tensors for a pretended accelerator are made on the CPU, so that code which tries a device out finds it."""

    def __init__(self, devices: list[str]):
        super().__init__()
        self._devices = tuple(devices)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.cuda and "cuda" in self._devices:
            return args[0].clone()
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        return func(*[self._placed(a) for a in args], **{k: self._placed(v) for k, v in (kwargs or {}).items()})

    def _placed(self, value: Any) -> Any:
        named = isinstance(value, str | torch.device) and str(value).split(":")[0] in self._devices
        return torch.device("cpu") if named else value


@contextlib.contextmanager
def _empty_caches(namespace: dict[str, Any]):
    """What functools keeps for a learner's functions is dropped before and after a call in an imaginary world."""
    _drop_caches(namespace)
    try:
        yield
    finally:
        _drop_caches(namespace)


def _drop_caches(namespace: dict[str, Any]) -> None:
    classes = [value for value in namespace.values() if isinstance(value, type)]
    for value in [*namespace.values(), *(part for owner in classes for part in vars(owner).values())]:
        function = getattr(value, "__func__", value) if isinstance(value, staticmethod | classmethod) else value
        if isinstance(function, KEEPS):
            function.cache_clear()


@contextlib.contextmanager
def _pretended(namespace: dict[str, Any], devices: list[str]):
    cuda, mps = "cuda" in devices, "mps" in devices
    best = torch.device(devices[0]) if devices else None
    answers: list[tuple[Any, str, Any]] = [
        (torch.cuda, "is_available", cuda),
        (torch.cuda, "device_count", int(cuda)),
        (torch.cuda, "current_device", 0),
        (torch.backends.mps, "is_available", mps),
        # Built in, as on every Mac: that says nothing about the machine.
        (torch.backends.mps, "is_built", True),
        (torch.mps, "device_count", int(mps)),
        (torch.mps, "is_available", mps),
        (torch.accelerator, "is_available", bool(devices)),
        (torch.accelerator, "device_count", int(bool(devices))),
        (torch.accelerator, "current_accelerator", best),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, answer in answers:
            original = getattr(owner, name, None)
            if original is None:
                continue
            told = _always(answer)
            stack.enter_context(mock.patch.object(owner, name, told))
            own = {n: told for n, value in namespace.items() if value is original}
            stack.enter_context(mock.patch.dict(namespace, own))
        stack.enter_context(_OnTheCpu(devices))
        yield


def _always(answer: Any) -> Callable:
    return lambda *args, **kwargs: answer


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
    own = [f for f in frames if f.filename.startswith(("<course", "<ipython-input"))]
    place = own[-1] if own else None
    return {
        "kinds": [cls.__name__[:80] for cls in type(error).__mro__ if cls is not object][:10],
        "text": text[:MAX_ERROR_TEXT],
        "function": place.name[:80] if place else None,
        "line": (place.line or linecache.getline(place.filename, place.lineno or 0)).strip()[:200] if place else None,
    }


# -- the loop that serves a socket, inside the kernel ---------------------------------------------------------------


def serve(namespace: dict[str, Any], connection: socket.socket, more: dict[str, Callable[[dict], Any]]) -> None:
    """Answer requests until the grader closes its end. more: operations that :class:`Stub` does not have."""

    def ask(header: bytes, body: bytes) -> tuple[bytes, bytes]:
        _send(connection, header, body)
        return _receive(connection)

    stub = Stub(namespace, ask, more)
    with contextlib.suppress(EOFError, OSError):
        while True:
            header, body = _receive(connection)
            _send(connection, *stub.answer(header, body))


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
