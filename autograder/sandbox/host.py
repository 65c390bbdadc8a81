"""The grader's hold on one sandbox: starts the zygote, asks it for kernels, and learns of their ends."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
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
from autograder.sandbox.zygote import EXIT_MEMORY, EXIT_PROCESSES, EXIT_SETUP

START_S = 60.0


@dataclass
class KernelProcess:
    """One forked kernel: where its sockets stand on this side, the channel, and its exit status once it has one."""

    number: int
    ip: str
    key: str
    probe: socket.socket
    status: int | None = None

    @property
    def why_ended(self) -> str:
        reasons = {
            EXIT_MEMORY: "the submission used more memory than it may",
            EXIT_PROCESSES: "the submission started more processes than it may",
            EXIT_SETUP: "the sandbox could not be set up",
        }
        return reasons.get(self.status or 0, f"the kernel ended (status {self.status})")


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
        # In /tmp whatever TMPDIR says: a Unix socket's path holds 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="ag-", dir="/tmp"))
        self._sockets = self._folder / "s"
        self._sockets.mkdir()
        if os.geteuid() == 0 and sandboxed:
            os.chown(self._sockets, bubblewrap.NOBODY, bubblewrap.NOBODY)
        self._log = (self._folder / "log").open("w+b")
        self._control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._start(far)
        except BaseException:
            self.close()
            raise

    def _start(self, far: socket.socket) -> None:
        program = bubblewrap.program(far.fileno(), json.dumps(asdict(self.limits)), bare=not self.sandboxed)
        environment = dict(os.environ)
        if self.sandboxed:
            program = bubblewrap.command(program, self._sockets)
        else:
            inside = bubblewrap.ENVIRONMENT | {"PYTHONPATH": str(bubblewrap.PACKAGE.parent), "HOME": str(self._folder)}
            environment = inside | {"MPLCONFIGDIR": str(self._folder), "PATH": os.environ.get("PATH", "")}
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
        """Fork a kernel. Returns at once; the kernel answers on its sockets some tens of milliseconds later."""
        self._count += 1
        folder = self._sockets / str(self._count)
        folder.mkdir()
        if os.geteuid() == 0 and self.sandboxed:
            os.chown(folder, bubblewrap.NOBODY, bubblewrap.NOBODY)
        mine, its = socket.socketpair()
        kernel = KernelProcess(self._count, str(folder / "k"), secrets.token_hex(16), mine)
        ports = {name: n for n, name in enumerate(_PORTS, 1)}
        request = {
            "op": "spawn",
            "number": kernel.number,
            "folder": folder.name,
            "work": f"{bubblewrap.PRIVATE}/work" if self.sandboxed else str(folder),
            "tmp": f"{bubblewrap.PRIVATE}/tmp",
            "connection": {"transport": "ipc", "ip": "/ipc/k" if self.sandboxed else kernel.ip, **ports},
            "key": kernel.key,
        }
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], [its.fileno()])
        except OSError:
            raise NoSandbox(f"the sandbox ended: {self.log()}") from None
        finally:
            its.close()
        self._kernels[kernel.number] = kernel
        return kernel

    def poll(self, kernel: KernelProcess, timeout_s: float = 0.0) -> int | None:
        """The exit status of a kernel, or None while it runs."""
        deadline = time.monotonic() + timeout_s
        while kernel.status is None:
            self._control.settimeout(max(1e-6, deadline - time.monotonic()))
            try:
                message = self._receive()
            except (TimeoutError, BlockingIOError):
                return None
            if not message:
                kernel.status = EXIT_SETUP
            elif message["number"] in self._kernels:
                self._kernels[message["number"]].status = message["status"]
        return kernel.status

    def kill(self, kernel: KernelProcess) -> None:
        """End a kernel and everything that it started; returns when it is gone."""
        if self.poll(kernel) is None:
            with contextlib.suppress(OSError):
                self._control.send(json.dumps({"op": "kill", "number": kernel.number}).encode())
            self.poll(kernel, 10.0)
        kernel.probe.close()
        self._kernels.pop(kernel.number, None)
        shutil.rmtree(self._sockets / str(kernel.number), ignore_errors=True)

    def _receive(self) -> dict:
        message = self._control.recv(1 << 16)
        return json.loads(message) if message else {}

    def close(self) -> None:
        """End the zygote and all its kernels, and remove its folder."""
        self._control.close()
        process = getattr(self, "_process", None)
        if process is not None:
            process.kill()
            process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_PORTS = ("shell_port", "iopub_port", "stdin_port", "hb_port", "control_port")
