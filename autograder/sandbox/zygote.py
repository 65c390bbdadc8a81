"""Runs inside the sandbox: imports torch once, then forks one kernel for each submission into fresh namespaces.

For each kernel there are three processes. The *keeper* takes new namespaces and watches from outside of them. The
*first* process of the new pid namespace mounts a private /proc and private folders and waits; when it ends, Linux ends
everything else in the namespace. The *kernel* gives up every capability before a line of learner code runs, and answers
on one inherited socket, the only thing that it shares with the outside.
Nothing secret is ever in this process, since each kernel inherits its memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from autograder.sandbox import syscalls
from autograder.sandbox.watch import watch

CLONE_FLAGS = 0x20000000 | 0x00020000 | 0x08000000 | 0x40000000 | 0x04000000  # pid, mount, ipc, net, uts
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 4, 24, 38, 47
EXIT_SETUP = 203
# The largest exit code of a submission; those above are the sandbox's own.
MAX_EXIT = 199

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    _checked(_libc.mount(*encoded, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


# -- the zygote ------------------------------------------------------------------------------------------------------


def warm_up() -> Any:
    """Make a shell and import what a kernel needs, once. A process with threads can't be forked safely: none starts."""
    import matplotlib
    import torch

    matplotlib.use("Agg")
    import matplotlib.pyplot

    from autograder.sandbox import fake, shell

    torch.set_num_threads(1)
    fake.run(lambda x: (x @ x.mT).softmax(-1), [torch.zeros(2, 2)], {})
    made = shell.make()
    made.run_cell("pass", store_history=False)
    gc.collect()
    gc.freeze()
    threads = os.listdir("/proc/self/task")
    if len(threads) > 1:
        raise RuntimeError(f"the zygote has {len(threads)} threads; it must not be forked")
    return made


def serve(control: socket.socket, limits: dict[str, Any], shell: Any, *, bare: bool) -> None:
    """Obey the grader: spawn and kill kernels, and report their ends, until the grader closes its side."""
    children: dict[int, int] = {}
    poller = select.poll()
    poller.register(control, select.POLLIN)
    while True:
        for fd, _event in poller.poll():
            if fd != control.fileno():
                _report_end(control, fd, children.pop(fd), poller)
                continue
            message, fds, _flags, _address = socket.recv_fds(control, 1 << 16, 1)
            if not message:
                return
            request = json.loads(message)
            if request["op"] == "kill":
                _kill(request["number"], children, signal.SIGKILL if bare else signal.SIGTERM)
                continue
            pidfd = _spawn(partial(_keeper, request, fds[0], limits, shell, bare), fds[0])
            children[pidfd] = request["number"]
            poller.register(pidfd, select.POLLIN)
            os.close(fds[0])


def _kill(number: int, children: dict[int, int], how: int) -> None:
    for pidfd, other in children.items():
        if other == number:
            signal.pidfd_send_signal(pidfd, how)


def _spawn(body: Any, probe: int) -> int:
    """Fork a child that holds the probe and the standard streams and no other descriptor; returns its pidfd."""
    pid = os.fork()
    if pid == 0:
        _guarded(body, probe)
    return os.pidfd_open(pid)


def _report_end(control: socket.socket, pidfd: int, number: int, poller) -> None:
    result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    poller.unregister(pidfd)
    os.close(pidfd)
    status = result.si_status if result and result.si_code == os.CLD_EXITED else -(result.si_status if result else 9)
    control.send(json.dumps({"number": number, "status": status}).encode())


def _guarded(body, probe: int) -> None:
    """Run a child's body; it never returns into the zygote's loop."""
    try:
        os.closerange(3, probe)
        os.closerange(probe + 1, 4096)
        body()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(EXIT_SETUP)


# -- one kernel ------------------------------------------------------------------------------------------------------


def _keeper(request: dict, probe: int, limits: dict, shell: Any, bare: bool) -> None:
    os.setsid()
    if bare:
        _run_kernel(request, probe, limits, shell)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    _checked(_libc.unshare(CLONE_FLAGS), "unshare")
    mine, its = socket.socketpair()
    first = os.fork()
    if first == 0:
        mine.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        _first_process(request, probe, limits, shell, its)
        os._exit(EXIT_SETUP)
    its.close()
    os.close(probe)
    # Ending the first process ends the namespace, and waiting for it waits for the end of all that was in there.
    pidfd = os.pidfd_open(first)
    signal.signal(signal.SIGTERM, lambda *_: signal.pidfd_send_signal(pidfd, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    # From here on /proc is the submission's, and no end of the first process is the sandbox's fault.
    ready = mine.recv(1)
    _drop_privileges()  # with them it would read, slowly, the sums that a process hides while it fills the memory
    over = watch(pidfd, limits) if ready else 0
    _pid, status = os.waitpid(first, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os._exit(over or (os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)))


def _first_process(request: dict, probe: int, limits: dict, shell: Any, ready: socket.socket) -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()  # a signal to the own process group must not reach the keeper
    # Learner code may signal this process: Linux lets such a signal through only where there is a handler for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _private_mounts(request, limits)
    mine, its = socket.socketpair()
    kernel = os.fork()
    if kernel == 0:
        mine.close()
        ready.close()
        its.recv(1)
        its.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _run_kernel(request, probe, limits, shell)
    its.close()
    os.close(probe)
    _drop_privileges()
    _libc.prctl(PR_SET_DUMPABLE, 0)
    ready.send(b"r")
    ready.close()
    mine.send(b"g")
    mine.close()
    code = MAX_EXIT
    with contextlib.suppress(BaseException):  # learner code may take this process's limits away, but not blame it
        code = _reap(kernel)
    os._exit(code)


def _reap(kernel: int) -> int:
    """Wait for orphans until the kernel has ended; its exit code, which is none of the sandbox's own."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == kernel:
            code = os.waitstatus_to_exitcode(status)
            return min(code, MAX_EXIT) if code >= 0 else 128 - code


def _private_mounts(request: dict, limits: dict) -> None:
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    # A new user namespace would give back the capabilities that the kernel gives up, and with them mounts.
    _write("/proc/sys/user/max_user_namespaces", "0")
    for path in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/sysrq-trigger"):
        if Path(path).exists():
            _mount(path, path, None, MS_BIND | MS_REC)
            _mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    size = f"size={limits['disk_mib']}m,nr_inodes=10000,mode=0700"
    for path in (*request["folders"], "/dev/shm"):
        _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, size)
    # Mapped and shared, this device is memory that no limit counts.
    _mount("/dev/null", "/dev/zero", None, MS_BIND)
    # The devices are mounts of their own; the folder that holds them would be a disk without a limit.
    _mount(None, "/dev", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _run_kernel(request: dict, probe: int, limits: dict, shell: Any) -> None:
    """Become the kernel: limits, no capabilities, clean surroundings, then answer until the grader hangs up."""
    os.chdir(request["folders"][0])
    silent = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(silent, fd)
    os.close(silent)
    os.nice(10)
    _set_limits(limits)
    _drop_privileges()
    syscalls.deny()
    from autograder.sandbox.shell import Cells
    from autograder.sandbox.stub import serve as answer

    cells = Cells(shell, limits["output_bytes"])
    answer(shell.user_ns, socket.socket(fileno=probe), {"cell": cells.run})
    os._exit(0)


def _set_limits(limits: dict) -> None:
    mib = 1 << 20
    # Torch's libraries alone map from 0.7 GiB to many, by build: what a learner gets must not depend on that.
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    wanted = {
        resource.RLIMIT_AS: mapped + limits["memory_mib"] * mib,
        resource.RLIMIT_FSIZE: limits["file_mib"] * mib,
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_NPROC: limits["processes"],
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for name, value in wanted.items():
        _soft, hard = resource.getrlimit(name)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))
    _write("/proc/self/oom_score_adj", "1000")


def _drop_privileges() -> None:
    """Give up every capability, in every set, for good. Before any thread starts: a capability set is per thread."""
    for capability in range(64):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)
    _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _checked(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    limits = json.loads(sys.argv[2])
    shell = warm_up()
    control.send(b'{"ready": true}')
    serve(control, limits, shell, bare=sys.argv[3] == "bare")


if __name__ == "__main__":
    main()
