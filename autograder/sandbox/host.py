"""The grader's hold on one sandbox: starts the zygote, asks it for kernels, and learns of their ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from autograder.sandbox import bubblewrap
from autograder.sandbox.bubblewrap import NoSandbox
from autograder.sandbox.limits import Limits
from autograder.sandbox.watch import EXIT_CPU, EXIT_MEMORY, EXIT_PROCESSES
from autograder.sandbox.zygote import EXIT_SETUP

START_S = 60.0
END_S = 10.0


class SandboxEnded(NoSandbox):
    """The sandbox itself is gone: a fault of the grader's side, whatever the submission did."""


@dataclass
class KernelProcess:
    """One forked kernel: its number, the channel to it, and its exit status once it has one."""

    number: int
    probe: socket.socket
    status: int | None = None

    @property
    def why_ended(self) -> str:
        reasons = {
            EXIT_MEMORY: "the submission used more memory than it may",
            EXIT_PROCESSES: "the submission started more processes than it may",
            EXIT_CPU: "the submission used more processor time than it may",
        }
        return reasons.get(self.status or 0, f"it stopped with status {self.status}")


class Zygote:
    """A running zygote. Use as a context manager, or call `close`.

    sandboxed: False runs kernels as plain processes of this user, for `--no-sandbox` alone.
    Raises NoSandbox when the sandbox can't be made.
    """

    def __init__(self, limits: Limits | None = None, *, sandboxed: bool = True):
        self.limits = limits or Limits()
        self.sandboxed = sandboxed
        self._kernels: dict[int, KernelProcess] = {}
        self._count = 0
        self._over = False
        # A file without a name: a grader that is killed leaves nothing behind.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._folder = None if sandboxed else Path(tempfile.mkdtemp(prefix="ag-"))
        self._control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._start(far)
        except BaseException:
            self.close()
            raise

    def _start(self, far: socket.socket) -> None:
        program = bubblewrap.program(far.fileno(), json.dumps(asdict(self.limits)), bare=not self.sandboxed)
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        if self.sandboxed:
            program = bubblewrap.command(program)
        else:
            inside = bubblewrap.ENVIRONMENT | {"PYTHONPATH": str(bubblewrap.PACKAGE.parent), "HOME": str(self._folder)}
            environment |= inside | {"MPLCONFIGDIR": str(self._folder), "IPYTHONDIR": str(self._folder)}
            environment |= {"TMPDIR": str(self._folder), "TORCHINDUCTOR_CACHE_DIR": str(self._folder)}
        try:
            self._process = subprocess.Popen(
                program,
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=environment,
                cwd="/",
            )
        except FileNotFoundError:
            raise NoSandbox(bubblewrap.why_none() or "bubblewrap could not be started") from None
        finally:
            far.close()
        self._control.settimeout(START_S)
        if not self._receive():
            raise NoSandbox(f"{bubblewrap.why_none() or 'the sandbox did not start'}: {self.log()}")

    def log(self) -> str:
        """The end of what the zygote wrote."""
        self._log.seek(0)
        return self._log.read()[-1500:].decode(errors="replace").strip()

    def spawn(self) -> KernelProcess:
        """Fork a kernel. Returns at once; the kernel answers some milliseconds later. Raises SandboxEnded."""
        self._count += 1
        mine, its = socket.socketpair()
        kernel = KernelProcess(self._count, mine)
        private = [f"{bubblewrap.PRIVATE}/work", f"{bubblewrap.PRIVATE}/tmp"]
        folders = private if self.sandboxed else [str(self._folder)]
        request = {"op": "spawn", "number": kernel.number, "folders": folders}
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], [its.fileno()])
        except OSError:
            mine.close()
            raise SandboxEnded(f"the sandbox ended: {self.log()}") from None
        finally:
            its.close()
        self._kernels[kernel.number] = kernel
        return kernel

    def poll(self, kernel: KernelProcess, timeout_s: float = 0.0) -> int | None:
        """The exit status of a kernel, or None while it runs. Raises SandboxEnded when that is the one to blame."""
        deadline = time.monotonic() + timeout_s
        while kernel.status is None:
            if self._over:
                raise SandboxEnded("the sandbox was ended")
            self._control.settimeout(max(1e-6, deadline - time.monotonic()))
            try:
                message = self._receive()
            except (TimeoutError, BlockingIOError):
                return None
            if not message:
                raise SandboxEnded(f"the sandbox ended: {self.log()}")
            if message["number"] in self._kernels:
                self._kernels[message["number"]].status = message["status"]
        if kernel.status == EXIT_SETUP:
            raise SandboxEnded(f"a kernel could not be set up: {self.log()}")
        return kernel.status

    def kill(self, kernel: KernelProcess) -> None:
        """End a kernel and everything that it started; returns when it is gone."""
        with contextlib.suppress(SandboxEnded, OSError):
            if self.poll(kernel) is None:
                self._control.send(json.dumps({"op": "kill", "number": kernel.number}).encode())
                if self.poll(kernel, END_S) is None:
                    self._end()  # a sandbox that can't end a kernel is none; the next one is new
        kernel.probe.close()
        self._kernels.pop(kernel.number, None)

    def _end(self) -> None:
        """The zygote ends when its end of this socket does. A signal alone is not enough: bubblewrap, started by root,
        has given up the right to hand it on to what runs as another user."""
        self._over = True
        self._control.close()
        process = getattr(self, "_process", None)
        if process is not None:
            process.kill()
            process.wait()

    def _receive(self) -> dict:
        try:
            message = self._control.recv(1 << 16)
        except ConnectionError:
            return {}
        return json.loads(message) if message else {}

    def close(self) -> None:
        """End the zygote and all its kernels, and remove its folder."""
        self._end()
        for kernel in self._kernels.values():
            kernel.probe.close()
        self._kernels.clear()
        self._log.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
