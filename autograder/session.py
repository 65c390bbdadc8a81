"""One submission's life in the sandbox: its cells run in a kernel, then that kernel answers the hidden tests.

Cells and tests go over one channel, the only way between the two sides. A kernel that dies or hangs is replaced, and
the cells run again without the one that ended it, so that one bad function does not cost the others.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import nbformat

from autograder.codec import BadFrame, Encoder, decode, readable
from autograder.probe import Answer, CallTimeout, KernelDied, LearnerError, NotAnswered
from autograder.sandbox.host import KernelProcess, SandboxEnded, Zygote
from autograder.sandbox.limits import MIB, Limits
from autograder.sandbox.shell import source_tensor
from autograder.wire import Wire

MAX_HEADER = 4 * MIB
MAX_CALLBACK = 4 * MIB
TRIES_PER_NAME = 2
# The part of a submission's time that its cells may take, first and repeated runs together; the rest is for the tests.
CELLS_SHARE = 0.6
LEAST_S = 5.0


@dataclass
class CellRun:
    """How one cell went: `ok`, `error`, `timeout`, `crash`, `memory` or `skipped`; the error, and what was printed."""

    source: str
    role: str
    status: str = "skipped"
    ename: str = ""
    evalue: str = ""
    printed: str = ""

    @property
    def ended_kernel(self) -> bool:
        return self.status in ("timeout", "crash", "memory")


@dataclass
class Session:
    """Runs `cells` (pairs of a notebook cell and its role) and then is a channel to their namespace.

    Use as a context manager. `notes` says what was skipped or started again.
    """

    zygote: Zygote
    cells: list[tuple[nbformat.NotebookNode, str]]
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    patient: bool = False

    def __post_init__(self) -> None:
        self.limits: Limits = self.zygote.limits
        self.runs = [CellRun(cell.source, role) for cell, role in self.cells]
        self._kernel: KernelProcess | None = None
        self._began = time.monotonic()
        self._restarts = 0
        self._received = 0
        self._printed = 0
        self._trouble: dict[str, list[Exception]] = {}
        self._last: Exception | None = None
        self._banned: set[int] = set()

    def __enter__(self) -> Session:
        try:
            self._bring_up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the kernel and everything that the submission started."""
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            self.zygote.kill(kernel)

    # -- cells ----------------------------------------------------------------------------------------------------

    def _bring_up(self) -> None:
        """Kernel and cells; starts again when a cell ends the kernel."""
        first = not self._restarts
        while True:
            self._start_kernel()
            if self._run_cells(checks=first):
                return
            self.close()
            first = False
            self._restarts += 1
            if self._restarts > self.limits.restarts:
                self.notes.append("The notebook ended its kernel again and again; the rest of it was not run.")
                return

    def _start_kernel(self) -> None:
        """Raises SandboxEnded for a kernel that does not answer: no learner code has run in it yet."""
        began = time.monotonic()
        self._kernel = self.zygote.spawn()
        try:
            self._ask("begin", self.limits.start_s, seed=0)
        except (CallTimeout, KernelDied, BadFrame) as error:
            raise SandboxEnded(f"a new kernel did not answer: {error}") from None
        self._add_time("kernel", began)

    def _run_cells(self, *, checks: bool) -> bool:
        """Run the cells in order. False when one ended the kernel; it is marked and will not run again."""
        began = time.monotonic()
        allowed = min(self.limits.training_s, self._cells_left())
        try:
            for place, run in enumerate(self.runs):
                if place in self._banned or (run.role == "check" and not checks):
                    continue
                left = allowed - (time.monotonic() - began)
                if left <= 0 and run.role in ("free", "check"):
                    self._note_skipped(run)
                elif not self._run_cell(run, max(LEAST_S, min(self.limits.cell_s, left))):
                    self._banned.add(place)
                    return False
            return True
        finally:
            self._add_time("cells", began)

    def _cells_left(self) -> float:
        return CELLS_SHARE * self.limits.total_s - self.timings.get("cells", 0.0)

    def _add_time(self, phase: str, began: float) -> None:
        self.timings[phase] = self.timings.get(phase, 0.0) + time.monotonic() - began

    def _note_skipped(self, run: CellRun) -> None:
        run.status = "skipped"
        note = f"The cells' time of {self.limits.training_s:.0f} s was spent; cells after that were skipped."
        if note not in self.notes:
            self.notes.append(note)

    def _run_cell(self, run: CellRun, seconds: float) -> bool:
        try:
            reply = self._ask("cell", seconds, source=source_tensor(run.source))
        except CallTimeout:
            run.status, run.evalue = "timeout", f"the cell took more than {seconds:.0f} s"
        except KernelDied as error:
            run.status, run.evalue = ("memory" if error.memory else "crash"), str(error)
        except BadFrame as error:
            run.status, run.evalue = "crash", f"its answer could not be read: {error}"
        else:
            self._take(run, reply)
        return not run.ended_kernel

    def _take(self, run: CellRun, reply: dict) -> None:
        run.status = "ok" if reply.get("status") == "ok" else "error"
        run.ename, run.evalue = readable(reply.get("ename"), 80), readable(reply.get("evalue"), 2_000)
        room = self.limits.output_bytes - self._printed
        run.printed = readable(reply.get("printed"), max(0, room))
        self._printed += len(run.printed)

    def _ask(self, op: str, seconds: float, **parts: Any) -> dict:
        """One request of the session's own and the reply's value. Raises as `exchange` does."""
        request = {"op": op, "id": secrets.token_hex(8), **parts}
        wire = Wire(self._kernel, self.zygote, time.monotonic() + seconds, f"It took more than {seconds:.0f} s.")
        wire.send(*Encoder().frame(request))
        reply = decode(*self._reply(wire))
        if not isinstance(reply, dict) or reply.get("id") != request["id"]:
            raise BadFrame("the reply does not belong to the request")
        value = reply.get("value")
        return value if isinstance(value, dict) else {}

    def _reply(self, wire: Wire) -> tuple[bytes, bytes]:
        header, body = wire.receive(MAX_HEADER, self.limits.frame_mib * MIB)
        self._received += len(header) + len(body)
        if self._received > self.limits.channel_mib * MIB:
            raise BadFrame("the answers are larger than a submission's answers may be")
        return header, body

    # -- the channel ----------------------------------------------------------------------------------------------

    def missing(self, name: str) -> Exception:
        """Why a name is not there: the cell that should define it failed, or nobody wrote it."""
        pattern = re.compile(rf"\b(def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*=", re.MULTILINE)
        for run in self.runs:
            if run.status in ("error", "timeout", "crash", "memory") and pattern.search(run.source):
                what = f"The cell that defines `{name}`"
                if run.status == "error":
                    return LearnerError(what, [run.ename or "Error"], run.evalue)
                if run.status == "timeout":
                    return CallTimeout(f"{what} did not end: {run.evalue}.")
                return KernelDied(f"{what} ended the kernel: {run.evalue}", memory=run.status == "memory")
        return NotAnswered(f"`{name}` is not defined.")

    def exchange(self, header: bytes, body: bytes, answer: Answer, label: str = "") -> tuple[bytes, bytes]:
        """One request and its reply, with every limit on the way. See :class:`autograder.probe.Channel`."""
        if len(self._trouble.get(label, ())) >= TRIES_PER_NAME:
            raise self._trouble[label][-1]
        if self._kernel is None:
            self._again()
        try:
            return self._exchange(header, body, answer, label)
        except (CallTimeout, KernelDied, BadFrame) as error:
            self._last = error
            if label != "begin":
                self._trouble.setdefault(label, []).append(error)
            self.close()
            raise

    def _again(self) -> None:
        if self._restarts >= self.limits.restarts:
            # The learner reads what happened the last time, and the outcome is that one's.
            text = "The notebook ended its kernel too often; it was not started again."
            if isinstance(self._last, CallTimeout):
                raise CallTimeout(f"{text} The last time: {self._last}")
            raise KernelDied(text, memory=isinstance(self._last, KernelDied) and self._last.memory)
        self._restarts += 1
        self._bring_up()
        if self._kernel is None:
            raise KernelDied("The notebook's cells could not be run again.")

    def _exchange(self, header: bytes, body: bytes, answer: Answer, label: str) -> tuple[bytes, bytes]:
        call_s = self.limits.call_s * (8 if self.patient else 1)
        total_left = self.limits.total_s - (time.monotonic() - self._began)
        seconds = max(0.1, min(call_s, total_left))
        wire = Wire(self._kernel, self.zygote, time.monotonic() + seconds, f"{label} took more than {seconds:.0f} s.")
        wire.send(header, body)
        for _ in range(self.limits.callbacks + 1):
            reply_header, reply_body = self._reply(wire)
            if not _is_callback(reply_header):
                return reply_header, reply_body
            if len(reply_body) > MAX_CALLBACK:
                raise BadFrame("the module that the test handed in was called with more than it can take")
            wire.send(*answer(reply_header, reply_body))
        raise BadFrame("the module that the test handed in was called too often")


def _is_callback(header: bytes) -> bool:
    return header.startswith(b'{"d": [["callback"')
