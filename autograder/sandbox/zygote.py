"""Runs inside the sandbox: imports torch once, then forks one kernel for each submission into fresh namespaces.

For each kernel there are three processes. The *keeper* takes new namespaces and waits. The *first* process of the new
pid namespace mounts a private /proc, /work and /tmp, then watches memory and processes; when it ends, the kernel
ends everything else in the namespace. The *kernel* gives up every capability before a line of learner code runs.
Nothing secret is ever in this process, since each kernel inherits its memory.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from autograder.sandbox import syscalls

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
EXIT_MEMORY, EXIT_PROCESSES, EXIT_SETUP = 201, 202, 203

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    _checked(_libc.mount(*encoded, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


# -- the zygote ------------------------------------------------------------------------------------------------------


def warm_up() -> None:
    """Import what a kernel needs, once, without starting a thread: a process with threads can't be forked safely."""
    import matplotlib
    import torch

    matplotlib.use("Agg")
    import matplotlib.pyplot

    from autograder.sandbox import fake, stub  # noqa: F401

    torch.set_num_threads(1)
    fake.run(lambda x: (x @ x.mT).softmax(-1), [torch.zeros(2, 2)], {})
    gc.collect()
    gc.freeze()
    threads = os.listdir("/proc/self/task")
    if len(threads) > 1:
        raise RuntimeError(f"the zygote has {len(threads)} threads; it must not be forked")


def serve(control: socket.socket, limits: dict[str, Any], *, bare: bool) -> None:
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
            _obey(json.loads(message), fds, control, children, poller, limits, bare)


def _obey(request: dict, fds: list[int], control, children: dict[int, int], poller, limits: dict, bare: bool) -> None:
    if request["op"] == "kill":
        for pidfd, number in children.items():
            if number == request["number"]:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return
    pid = os.fork()
    if pid == 0:
        _guarded(partial(_keeper, request, fds[0], limits, bare), control)
    for fd in fds:
        os.close(fd)
    pidfd = os.pidfd_open(pid)
    children[pidfd] = request["number"]
    poller.register(pidfd, select.POLLIN)


def _report_end(control: socket.socket, pidfd: int, number: int, poller) -> None:
    result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    poller.unregister(pidfd)
    os.close(pidfd)
    status = result.si_status if result and result.si_code == os.CLD_EXITED else -(result.si_status if result else 9)
    control.send(json.dumps({"number": number, "status": status}).encode())


def _guarded(body, control: socket.socket) -> None:
    """Run a child's body; it never returns into the zygote's loop."""
    try:
        control.close()
        body()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(EXIT_SETUP)


# -- one kernel ------------------------------------------------------------------------------------------------------


def _keeper(request: dict, probe: int, limits: dict, bare: bool) -> None:
    os.setsid()
    if bare:
        _run_kernel(request, probe, limits, lambda: None)
        os._exit(0)
    _checked(_libc.unshare(CLONE_FLAGS), "unshare")
    first = os.fork()
    if first == 0:
        _first_process(request, probe, limits)
        os._exit(EXIT_SETUP)
    os.close(probe)
    _pid, status = os.waitpid(first, 0)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _first_process(request: dict, probe: int, limits: dict) -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _private_mounts(request, limits)
    mine, its = socket.socketpair()
    kernel = os.fork()
    if kernel == 0:
        mine.close()
        _run_kernel(request, probe, limits, partial(_when_bound, its))
        os._exit(0)
    its.close()
    os.close(probe)
    # The kernel's sockets stand in this folder; once they are bound, nobody inside needs to write there.
    if mine.recv(1):
        _mount(None, "/ipc", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _drop_privileges()
    _libc.prctl(PR_SET_DUMPABLE, 0)
    mine.send(b"g")
    os._exit(_watch(kernel, limits))


def _when_bound(its: socket.socket) -> None:
    its.send(b"r")
    its.recv(1)
    its.close()


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
    for path in (request["work"], request["tmp"], "/dev/shm"):
        _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, size)
    # The devices are mounts of their own; the folder that holds them would be a disk without a limit.
    _mount(None, "/dev", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    _mount(f"/ipc/{request['folder']}", "/ipc", None, MS_BIND)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _run_kernel(request: dict, probe: int, limits: dict, when_bound) -> None:
    """Become the kernel: limits, no capabilities, clean surroundings, then the message loop."""
    os.chdir(request["work"])
    silent = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(silent, fd)
    os.nice(10)
    _set_limits(limits)
    _drop_privileges()
    syscalls.deny()
    from ipykernel.kernelapp import IPKernelApp

    from autograder.sandbox import stub

    application = IPKernelApp.instance()
    application.connection_file = str(Path(request["work"]) / ".connection.json")
    application.ignore_cwd = True
    for name, value in request["connection"].items():
        setattr(application, name, value)
    application.session.key = request["key"].encode()
    application.initialize(["--HistoryManager.hist_file=:memory:", "--no-stdout", "--no-stderr"][:1])
    shell = application.kernel.shell
    shell.course_serve = partial(stub.serve, shell.user_ns, socket.socket(fileno=probe))
    when_bound()
    application.start()


def _set_limits(limits: dict) -> None:
    mib = 1 << 20
    wanted = {
        resource.RLIMIT_AS: limits["memory_mib"] * mib,
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


# -- the watch -------------------------------------------------------------------------------------------------------


def _watch(kernel: int, limits: dict) -> int:
    """Wait for the kernel, reap orphans, and end all when the sums over processes pass their limits."""
    total = limits["total_memory_mib"] * 1024
    while True:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == 0:
                break
            if pid == kernel:
                code = os.waitstatus_to_exitcode(status)
                return min(code, 199) if code >= 0 else 128 - code
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        if len(pids) > limits["processes"]:
            return EXIT_PROCESSES
        if sum(_kib(pid, "status", ("RssAnon:", "RssShmem:")) for pid in pids) > total and (
            sum(_kib(pid, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) for pid in pids) > total
        ):
            return EXIT_MEMORY
        time.sleep(0.02)


def _kib(pid: int, file: str, fields: tuple[str, ...]) -> int:
    """The sum of some fields of a /proc file; 0 for a process that has just ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(fields))


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    limits = json.loads(sys.argv[2])
    warm_up()
    control.send(b'{"ready": true}')
    serve(control, limits, bare=sys.argv[3] == "bare")


if __name__ == "__main__":
    main()
