"""The keeper's watch over one submission: the sums over its processes that no limit of Linux keeps."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

EXIT_MEMORY, EXIT_PROCESSES, EXIT_CPU = 201, 202, 204
LOOK_MS = 20


def watch(pidfd: int, limits: dict) -> int:
    """Look at the sums over processes until the first one has ended, and end it when a sum passes its limit.

    In the keeper, which learner code does not see: it can't signal it, slow it down, or change its limits.
    """
    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    while not ended.poll(LOOK_MS):
        over = _over([int(name) for name in os.listdir("/proc") if name.isdigit()], limits)
        if over:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            return over
    return 0


def _over(pids: list[int], limits: dict) -> int:
    """The exit code for a sum over processes that is past its limit; 0 while all are kept."""
    if len(pids) > limits["processes"]:
        return EXIT_PROCESSES
    if sum(_cpu_s(pid) for pid in pids) > limits["cpu_s"]:
        return EXIT_CPU
    allowed = limits["total_memory_mib"] * 1024
    resident = {pid: _kib(pid, "status", ("RssAnon:", "RssShmem:", "VmSwap:")) for pid in pids}
    if sum(kib or 0 for kib in resident.values()) <= allowed:
        return 0
    # Pages that forked processes share are counted once. A process that hides this file counts with all its pages.
    shared = {pid: _kib(pid, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")) for pid in pids}
    total = sum(kib if kib is not None else resident[pid] or 0 for pid, kib in shared.items())
    return EXIT_MEMORY if total > allowed else 0


def _kib(pid: int, file: str, fields: tuple[str, ...]) -> int | None:
    """The sum of some fields of a /proc file; None if unreadable. A process may name itself as it likes: bytes."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_bytes().splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) for line in lines if line.startswith(tuple(f.encode() for f in fields)))


def _cpu_s(pid: int) -> float:
    """Processor time of a process and of the children that it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
