"""Every limit of the sandbox in one place, with the defaults that the course uses."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    memory_mib: address space of one process, beyond what it starts with. total_memory_mib: all processes of the
    submission together. processes: also counts threads where the kernel counts them so. cell_s, call_s: wall
    seconds of one cell, of a call from a hidden test; total_s: of the whole submission; training_s: of all notebook
    cells together, after which the rest is skipped. disk_mib: the private work folder and /tmp, each. output_bytes:
    kept of one submission's prints. frame_mib, channel_mib: one reply over the channel, and all replies together.
    """

    memory_mib: int = 1_280
    total_memory_mib: int = 3_072
    processes: int = 128
    open_files: int = 512
    file_mib: int = 64
    disk_mib: int = 64
    cpu_s: int = 300
    cell_s: float = 30.0
    call_s: float = 10.0
    training_s: float = 120.0
    total_s: float = 420.0
    output_bytes: int = 1 * MIB
    frame_mib: int = 64
    channel_mib: int = 512
    callbacks: int = 2_000
    restarts: int = 6
    start_s: float = 30.0
