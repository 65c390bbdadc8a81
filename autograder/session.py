"""One submission's life in the sandbox: its cells run in a kernel, then that kernel answers the hidden tests.

A kernel that dies or hangs is replaced, and the cells run again without the one that ended it, so that one bad
function does not cost the others. What comes back is data: a cell's status here, a reply over the channel there.
"""

from __future__ import annotations

import re
import select
import time
from dataclasses import dataclass, field
from typing import Any

import nbformat
import zmq
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from autograder.codec import BadFrame, decode
from autograder.probe import Answer, CallTimeout, KernelDied, LearnerError, NotAnswered
from autograder.sandbox.host import KernelProcess, Zygote
from autograder.sandbox.limits import MIB, Limits
from autograder.sandbox.provisioner import SandboxKernelManager
from autograder.sandbox.stub import PREFIX
from autograder.sandbox.zygote import EXIT_MEMORY

MAX_HEADER = 4 * MIB
TRIES_PER_NAME = 2
SERVE = "get_ipython().course_serve()"


@dataclass
class CellRun:
    """How one cell went: `ok`, `error`, `timeout`, `crash`, `memory` or `skipped`, with the exception's words."""

    source: str
    role: str
    status: str = "skipped"
    ename: str = ""
    evalue: str = ""

    @property
    def ended_kernel(self) -> bool:
        return self.status in ("timeout", "crash", "memory")


class _Client(NotebookClient):
    """Runs cells; keeps at most so many bytes of what they print."""

    budget = 0

    def process_message(self, msg: dict, cell: Any, cell_index: int) -> Any:
        if msg.get("msg_type") in ("stream", "display_data", "execute_result", "error", "update_display_data"):
            self.budget -= len(str(msg.get("content", ""))[: 64 * MIB])
            if self.budget < 0:
                return None
        if msg.get("msg_type", "").startswith("comm_"):
            return None
        return super().process_message(msg, cell, cell_index)


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
        self._manager: SandboxKernelManager | None = None
        self._kernel: KernelProcess | None = None
        self._client: _Client | None = None
        self._began = time.monotonic()
        self._restarts = 0
        self._received = 0
        self._trouble: dict[str, list[Exception]] = {}
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
        client, self._client = self._client, None
        if client is not None and client.kc is not None:
            client.kc.stop_channels()
        if self._kernel is not None:
            self.zygote.kill(self._kernel)
        if self._manager is not None:
            self._manager.cleanup_connection_file()
        self._kernel = self._manager = None

    # -- cells ----------------------------------------------------------------------------------------------------

    def _bring_up(self) -> None:
        """Kernel, cells, and the loop that answers; starts again when a cell ends the kernel."""
        first = True
        while True:
            self._start_kernel()
            if self._run_cells(checks=first):
                break
            self.close()
            first = False
            self._restarts += 1
            if self._restarts > self.limits.restarts:
                self.notes.append("The notebook ended its kernel again and again; the rest of it was not run.")
                return
        assert self._client is not None and self._client.kc is not None
        self._client.kc.execute(SERVE, silent=True, store_history=False)

    def _start_kernel(self) -> None:
        # A kernel that was killed may leave hundreds of processes that take a moment to end; until then there is no
        # room for a new one.
        for pause_s in (0.5, 2.0):
            try:
                return self._fork_kernel()
            except RuntimeError:
                self.close()
                time.sleep(pause_s)
        self._fork_kernel()

    def _fork_kernel(self) -> None:
        began = time.monotonic()
        manager = SandboxKernelManager(self.zygote)
        manager.context.setsockopt(zmq.MAXMSGSIZE, 64 * MIB)
        notebook = nbformat.v4.new_notebook(cells=[cell for cell, _role in self.cells])
        client = _Client(notebook, km=manager, allow_errors=True, record_timing=False, startup_timeout=60)
        client.budget = self.limits.output_bytes
        client.reset_execution_trackers()
        client.start_new_kernel()
        client.start_new_kernel_client()
        assert client.kc is not None and manager.provisioner is not None
        client.kc.allow_stdin = False
        self._manager, self._client = manager, client
        self._kernel = manager.provisioner.kernel  # type: ignore[attr-defined]
        self.timings["kernel"] = self.timings.get("kernel", 0.0) + time.monotonic() - began

    def _run_cells(self, *, checks: bool) -> bool:
        """Run the cells in order. False when one ended the kernel; it is marked and will not run again."""
        began = time.monotonic()
        try:
            for place, run in enumerate(self.runs):
                if place in self._banned or (run.role == "check" and not checks):
                    continue
                left = self.limits.training_s - (time.monotonic() - began)
                if left <= 0 and run.role in ("free", "check"):
                    self._note_skipped(run)
                    continue
                if not self._run_cell(place, max(5.0, min(self.limits.cell_s, left))):
                    self._banned.add(place)
                    return False
            return True
        finally:
            self.timings["cells"] = self.timings.get("cells", 0.0) + time.monotonic() - began

    def _note_skipped(self, run: CellRun) -> None:
        run.status = "skipped"
        note = f"The cells' time of {self.limits.training_s:.0f} s was spent; cells after that were skipped."
        if note not in self.notes:
            self.notes.append(note)

    def _run_cell(self, place: int, seconds: float) -> bool:
        run, (cell, _role) = self.runs[place], self.cells[place]
        assert self._client is not None
        self._client.timeout = seconds  # type: ignore[assignment]
        cell.outputs = []
        try:
            self._client.execute_cell(cell, place)
        except CellTimeoutError:
            run.status = "timeout"
            run.evalue = f"the cell took more than {seconds:.0f} s"
        except (DeadKernelError, RuntimeError, ConnectionError) as error:
            run.status, run.evalue = self._cause_of_death(error)
        else:
            errors = [o for o in cell.outputs if o.get("output_type") == "error"]
            run.status = "error" if errors else "ok"
            if errors:
                run.ename, run.evalue = str(errors[0].ename)[:80], str(errors[0].evalue)[:2000]
                if run.ename == "MemoryError" or "can't allocate memory" in run.evalue:
                    run.status = "error"
        return not run.ended_kernel

    def _cause_of_death(self, error: Exception) -> tuple[str, str]:
        assert self._kernel is not None
        if self.zygote.poll(self._kernel, 2.0) is None:
            return "crash", f"the kernel stopped answering ({type(error).__name__})"
        return ("memory" if self._kernel.status == EXIT_MEMORY else "crash"), self._kernel.why_ended

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
                return KernelDied(f"{what} ended the kernel: {run.evalue}.", memory=run.status == "memory")
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
            if label != "begin":
                self._trouble.setdefault(label, []).append(error)
            self.close()
            raise

    def _again(self) -> None:
        if self._restarts >= self.limits.restarts:
            raise KernelDied("The kernel was ended too often by this submission; it was not started again.")
        self._restarts += 1
        self._bring_up()
        if self._kernel is None:
            raise KernelDied("The notebook's cells could not be run again.")

    def _exchange(self, header: bytes, body: bytes, answer: Answer, label: str) -> tuple[bytes, bytes]:
        call_s = self.limits.call_s * (8 if self.patient else 1)
        total_left = self.limits.total_s - (time.monotonic() - self._began)
        seconds = max(0.1, min(call_s, total_left))
        wire = _Wire(self._kernel, self.zygote, time.monotonic() + seconds, f"{label} took more than {seconds:.0f} s.")
        wire.send(header, body)
        for _ in range(self.limits.callbacks + 1):
            reply_header, reply_body = wire.receive(MAX_HEADER, self.limits.frame_mib * MIB)
            self._received += len(reply_header) + len(reply_body)
            if self._received > self.limits.channel_mib * MIB:
                raise BadFrame("the answers are larger than a submission's answers may be")
            if not _is_callback(reply_header):
                return reply_header, reply_body
            decode(reply_header, reply_body)
            wire.send(*answer(reply_header, reply_body))
        raise BadFrame("the module that the test handed in was called too often")


def _is_callback(header: bytes) -> bool:
    return header.startswith(b'{"d": [["callback"')


class _Wire:
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

    def _died(self) -> None:
        self._zygote.poll(self._kernel, 2.0)
        raise KernelDied(
            f"The kernel ended during the call: {self._kernel.why_ended}.", memory=self._kernel.status == EXIT_MEMORY
        )
