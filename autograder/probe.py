"""The grader's end of the channel: proxies that look like the learner's functions and classes.

A hidden test calls `learner.softmax(x)` as if it were local. The call happens behind the channel (in the sandboxed
kernel, or in this process for the reference and the known mistakes) and only data comes back.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_leaves

from autograder.codec import BadFrame, Callback, Encoder, Handle, decode, readable
from autograder.sandbox.stub import Stub

# The modules that tests hand in may need the square of a length, in memory and in steps.
CALLBACK_ELEMENTS = 1 << 14
CALLBACK_AXIS = 1 << 9

Answer = Callable[[bytes, bytes], tuple[bytes, bytes]]


class NotAnswered(Exception):
    """The learner has not written this name, or has left the stub in place."""


class ReferenceFailed(Exception):
    """The reference raised: the test asks for something that it can't do, which is no fault of a learner."""


class LearnerError(Exception):
    """The learner's code raised. `kinds` are the names of the exception's classes, the most special first."""

    def __init__(self, call: str, kinds: list[str], text: str, function: str | None = None, line: str | None = None):
        self.call, self.kinds, self.text, self.function, self.line = call, kinds, text, function, line
        where = f" at the line `{line}`" if line else ""
        super().__init__(f"{call} raised {kinds[0]}: {text}{where}")

    @property
    def is_memory(self) -> bool:
        return "MemoryError" in self.kinds or "not enough memory" in self.text or "can't allocate" in self.text


class CallTimeout(Exception):
    """A call took longer than a call may take."""


class KernelDied(Exception):
    """The kernel ended during a call. `memory` says that the sandbox ended it over the memory limit."""

    def __init__(self, message: str, *, memory: bool = False):
        self.memory = memory
        super().__init__(message)


class Channel(Protocol):
    """Carries one request and brings the reply; `answer` replies to callbacks that come in between.

    label: what is called, in the learner's words. patient: the calls of this test may take long.
    Raises CallTimeout, KernelDied or BadFrame.
    """

    patient: bool

    def exchange(self, header: bytes, body: bytes, answer: Answer, label: str = "") -> tuple[bytes, bytes]: ...


class LocalChannel:
    """A channel to a namespace in this process: the reference, or a known mistake. Never learner code."""

    patient = False

    def __init__(self, namespace: dict[str, Any]):
        self._answer: Answer | None = None
        self._stub = Stub(namespace, lambda header, body: self._answer(header, body))  # type: ignore[misc]

    def exchange(self, header: bytes, body: bytes, answer: Answer, label: str = "") -> tuple[bytes, bytes]:
        self._answer = answer
        return self._stub.answer(header, body)


@dataclass(frozen=True)
class Gradients:
    """What `backward` brings back: the value, one gradient (or None) per input that asks for one, and parameters."""

    value: Any
    inputs: list[Any]
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Effects:
    """What `effects` brings back: the value, the numbers of the tensors that the call changed, and global state."""

    value: Any
    changed_inputs: list[int]
    changed_state: list[str]


@dataclass(frozen=True)
class FakeRun:
    """What `on_fake_device` brings back; see :func:`autograder.sandbox.fake.run`."""

    outcome: str
    message: str
    devices: list[str] = field(default_factory=list)
    dtypes: list[Any] = field(default_factory=list)
    shapes: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class State:
    """Parameters and buffers of a module, by name."""

    parameters: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    trainable: dict[str, bool]


class Learner:
    """The names behind a channel.

    present: the names that exist there. missing: the exception to raise for another name.
    record: called with (what, result) after every exchange, for the comparison with known mistakes.
    """

    def __init__(
        self,
        channel: Channel,
        present: Iterable[str],
        record: Callable[[str, Any], None] | None = None,
        missing: Callable[[str], Exception] | None = None,
    ):
        self._channel = channel
        self._missing = missing or (lambda name: NotAnswered(f"`{name}` is not defined."))
        self._present = frozenset(present)
        self._record = record or (lambda what, result: None)
        self._callbacks: dict[int, Callable] = {}
        self.trusted = False
        self._muted = False

    def __getattr__(self, name: str) -> Remote:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._present:
            raise self._missing(name)
        return Remote(self, name, name)

    def backward(self, target: str | Remote, *args: Any, cotangent: torch.Tensor | None = None, **kwargs) -> Gradients:
        """Forward and backward in one call.

        The loss is the sum of the first floating output times `cotangent` (default: cos(0), cos(1), ...). Every
        tensor argument with `requires_grad` gets an entry in `inputs`, in order; None where no gradient arrived.
        """
        return Gradients(**self._ask("backward", target, args, kwargs, cotangent=cotangent))

    def effects(self, target: str | Remote, *args: Any, **kwargs: Any) -> Effects:
        """Call, and say which inputs and which global state the call changed."""
        return Effects(**self._ask("effects", target, args, kwargs))

    def on_fake_device(self, target: str | Remote, *args: Any, **kwargs: Any) -> FakeRun:
        """Call on fake tensors of an imaginary second device."""
        return FakeRun(**self._ask("fake", target, args, kwargs))

    def largest_tensor(self, target: str | Remote, *args: Any, **kwargs: Any) -> tuple[Any, int]:
        """Call without gradients: the value, and the elements of the largest tensor made on the way."""
        reply = self._ask("largest", target, args, kwargs)
        return reply["value"], reply["largest"]

    def memory(self, target: str | Remote, *args: Any, **kwargs: Any) -> tuple[Any, int, int]:
        """As `largest_tensor`, and the elements of all tensors alive at one time, inputs left out."""
        reply = self._ask("largest", target, args, kwargs)
        return reply["value"], reply["largest"], reply["peak"]

    def pretend(self, devices: list[str], target: str | Remote, *args: Any, **kwargs: Any) -> Any:
        """Call as if the machine had just these accelerators (`cuda`, `mps`), the best first."""
        return self._ask("pretend", target, args, kwargs, devices=devices)

    def torch(self, class_name: str, *args: Any, **kwargs: Any) -> Remote:
        """Build `torch.nn.<class_name>` behind the channel, to hand to the learner's code."""
        return self._send({"op": "torch", "class": class_name, "args": args, "kwargs": kwargs}, f"nn.{class_name}")

    def callback(self, function: Callable) -> Callback:
        """A module to hand to the learner's code, whose forward `function` answers on this side."""
        self._callbacks[len(self._callbacks)] = function
        return Callback(len(self._callbacks) - 1)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Inside, the trace holds that a call was made and not its value: for values in which right programs differ."""
        before, self._muted = self._muted, True
        try:
            yield
        finally:
            self._muted = before

    def note(self, finding: Any) -> None:
        """Put what a test found into the trace, for the comparison with known mistakes."""
        self._record("finding", finding)

    def names(self, wanted: Iterable[str]) -> dict[str, str]:
        """Which of the names exist, and the type of each."""
        found = self._send({"op": "names", "names": list(wanted)}, "the notebook", record=False)
        if not isinstance(found, dict):
            raise BadFrame("the list of names is not a list of names")
        return {str(name): str(kind) for name, kind in found.items()}

    def begin(self, seed: int, *, patient: bool = False) -> None:
        """Start a test: the far side forgets its objects and seeds its global random state."""
        self._callbacks.clear()
        self._channel.patient = patient
        # Not the seed itself: the test's inputs are drawn from it, those of calls to come included.
        far = int.from_bytes(hashlib.sha256(b"far %d" % seed).digest()[:7], "big")
        self._send({"op": "begin", "seed": far}, "begin", record=False)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _ask(self, op: str, target: str | Remote, args: Any, kwargs: Any, **extra: Any) -> Any:
        remote = getattr(self, target) if isinstance(target, str) else target
        return remote._send(op, args=list(args), kwargs=kwargs, **extra)

    def _send(self, request: dict[str, Any], what: str, *, record: bool = True) -> Any:
        request = {**request, "id": secrets.token_hex(8)}
        frame = Encoder(_keep_handles).frame(request)
        reply = self._decoded(self._channel.exchange(*frame, self._answer_callback, what))
        if not isinstance(reply, dict) or reply.get("id") != request["id"]:
            raise BadFrame("the reply does not belong to the request")
        failed = "error" in reply
        if record:
            # An error of its own for the trace: one that was raised would keep every frame that it came through.
            self._record(what, _error(what, reply["error"]) if failed else None if self._muted else reply.get("value"))
        if failed:
            error = _error(what, reply["error"])
            raise ReferenceFailed(str(error)) if self.trusted else error
        return reply.get("value")

    def _decoded(self, frame: tuple[bytes, bytes]) -> Any:
        return decode(*frame, resolve=lambda ref: Remote(self, ref, getattr(ref, "type_name", "object")))

    def _answer_callback(self, header: bytes, body: bytes) -> tuple[bytes, bytes]:
        request = decode(header, body)
        try:
            _check_small(request)
            value = self._callbacks[request["callback"]](*request["args"], **request["kwargs"])
            reply: dict[str, Any] = {"value": value}
        except Exception as error:  # the learner called the module with something it can't take
            reply = {"error": f"the module that the test handed in could not be called so: {error}"[:300]}
        return Encoder(_keep_handles).frame(reply)


def _check_small(request: Any) -> None:
    """What a callback may be called with: it runs here, where no deadline ends it and no limit holds its memory."""
    shapes = [leaf.shape for leaf in tree_leaves(request) if isinstance(leaf, torch.Tensor)]
    if any(shape.numel() > CALLBACK_ELEMENTS or max(shape, default=0) > CALLBACK_AXIS for shape in shapes):
        raise ValueError(f"a tensor of more than {CALLBACK_ELEMENTS} elements, or {CALLBACK_AXIS} along one axis")


class Remote:
    """A function, class or object on the far side. Call it; `get`, `method`, `state` and `load` reach into it."""

    def __init__(self, learner: Learner, target: str | Handle, label: str):
        self._learner, self._target, self._label = learner, target, label

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._send("call", args=list(args), kwargs=kwargs)

    def method(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method: `module.method("eval")`."""
        return self._send("call", method=name, args=list(args), kwargs=kwargs)

    def get(self, path: str) -> Any:
        """An attribute by its dotted path: data, or another Remote."""
        return self._send("get", path=path)

    def state(self, *, record: bool = True) -> State:
        """Parameters and buffers. record=False: their names play no part when a mistake is named (free insides)."""
        request = {"op": "state", "target": self._target}
        return State(**self._learner._send(request, self._label, record=record))

    def load(self, weights: dict[str, torch.Tensor]) -> Remote:
        """Copy values into parameters and buffers by name."""
        self._send("load", weights=weights)
        return self

    @property
    def type_name(self) -> str:
        return self._label

    def _send(self, op: str, *, method: str | None = None, **parts: Any) -> Any:
        what = self._label + (f".{method}" if method else "")
        request = {"op": op, "target": self._target, **parts}
        return self._learner._send(request | ({"method": method} if method else {}), what)


def _keep_handles(value: Any) -> Handle:
    if isinstance(value, Remote) and isinstance(value._target, Handle):
        return value._target
    raise TypeError(f"a hidden test may not send an object of type {type(value).__name__}")


def _error(call: str, error: Any) -> Exception:
    if not isinstance(error, dict) or not isinstance(error.get("kinds"), list) or not error["kinds"]:
        return BadFrame("an error without its kind")
    kinds = [readable(kind, 80) or "Error" for kind in error["kinds"][:10]]
    if "NotImplementedError" in kinds:
        return NotAnswered(f"`{call}` is still the stub.")
    function, line = readable(error.get("function"), 80), readable(error.get("line"), 200)
    return LearnerError(call, kinds, readable(error.get("text"), 2_000), function or None, line or None)
