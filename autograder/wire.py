"""Frames over the channel's socket: bounded in size, with a deadline, and watching that the other side lives."""

from __future__ import annotations

import select
import time
from typing import NoReturn

from autograder.codec import BadFrame
from autograder.probe import CallTimeout, KernelDied
from autograder.sandbox.host import KernelProcess, Zygote
from autograder.sandbox.limits import MIB
from autograder.sandbox.stub import PREFIX
from autograder.sandbox.watch import EXIT_MEMORY


class Wire:
    """Frames over a socket with a deadline, watching that the other side lives."""

    def __init__(self, kernel: KernelProcess | None, zygote: Zygote, deadline: float, too_late: str):
        assert kernel is not None
        self._kernel, self._zygote, self._deadline, self._too_late = kernel, zygote, deadline, too_late
        kernel.probe.setblocking(False)

    def send(self, header: bytes, body: bytes) -> None:
        view = memoryview(PREFIX.pack(len(header), len(body)) + header + body)
        while view:
            self._wait(select.POLLOUT)
            try:
                view = view[self._kernel.probe.send(view[: 1 << 20]) :]
            except BlockingIOError:
                continue
            except OSError:
                self._died()

    def receive(self, max_header: int, max_body: int) -> tuple[bytes, bytes]:
        header_size, body_size = PREFIX.unpack(self._exactly(PREFIX.size))
        if header_size > max_header or body_size > max_body:
            raise BadFrame(f"it is larger than an answer may be ({(header_size + body_size) / MIB:.0f} MiB)")
        return self._exactly(header_size), self._exactly(body_size)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._wait(select.POLLIN)
            try:
                part = self._kernel.probe.recv(min(size - len(parts), 1 << 20))
            except BlockingIOError:
                continue
            except OSError:
                part = b""
            if not part:
                self._died()
            parts += part
        return bytes(parts)

    def _wait(self, event: int) -> None:
        poller = select.poll()
        poller.register(self._kernel.probe, event)
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise CallTimeout(self._too_late)
            if poller.poll(min(left, 0.5) * 1000):
                return
            if self._zygote.poll(self._kernel) is not None:
                self._died()

    def _died(self) -> NoReturn:
        ended = self._zygote.poll(self._kernel, 2.0) is not None
        why = self._kernel.why_ended if ended else "it closed the channel to the grader"
        raise KernelDied(f"The kernel ended: {why}.", memory=self._kernel.status == EXIT_MEMORY)
