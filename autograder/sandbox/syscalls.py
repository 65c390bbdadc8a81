"""Takes from a process the system calls that learner code has no use for, by a seccomp filter.

Two kinds: those that make memory which no limit counts (anonymous files, System V segments, message queues), and
those that reach deep into the kernel or into other processes.
A denied call fails with EPERM. On an architecture that is not listed no filter is set.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
RET_ALLOW, RET_ERRNO, RET_KILL = 0x7FFF0000, 0x00050000, 0x80000000

# name: (x86_64, aarch64)
DENIED = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "io_uring_setup": (425, 425),
    "io_setup": (206, 0),
    "vmsplice": (278, 75),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "open_tree": (428, 428),
    "mount_setattr": (442, 442),
    "chroot": (161, 51),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "name_to_handle_at": (303, 264),
    "quotactl": (179, 60),
    "swapon": (167, 224),
    "acct": (163, 89),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "kexec_file_load": (320, 294),
    "delete_module": (176, 106),
    "setns": (308, 268),
    "unshare": (272, 97),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "personality": (135, 92),
}
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
X32_BIT = 0x40000000
# Anonymous memory that is shared: its pages stay until the whole mapping is gone, in no process's sum once a part of it
# is unmapped.
MMAP = (9, 222)
MAP_FLAGS_AT, MAP_SHARED_ANONYMOUS = 16 + 3 * 8, 0x01 | 0x20


def deny() -> bool:
    """Set the filter for this process and all that it starts; False on an unknown architecture.

    Needs no_new_privs. Raises OSError when the kernel refuses.
    """
    if platform.machine() not in ARCHITECTURES:
        return False
    column, audit = ARCHITECTURES[platform.machine()]
    program = _program([numbers[column] for numbers in DENIED.values()], MMAP[column], audit)
    code = ctypes.create_string_buffer(program)

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    block = Filter(len(program) // 8, ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(block), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return True


def _program(numbers: list[int], mmap: int, audit: int) -> bytes:
    """Classic BPF: kill on another architecture's calls, EPERM for the denied ones and for shared anonymous memory."""
    load, equal, at_least, both, give = 0x20, 0x15, 0x35, 0x54, 0x06
    lines = [(load, 0, 0, 4), (equal, 1, 0, audit), (give, 0, 0, RET_KILL), (load, 0, 0, 0)]
    lines += [(at_least, 0, 1, X32_BIT), (give, 0, 0, RET_KILL)]
    for place, number in enumerate(numbers):
        lines.append((equal, len(numbers) - place + 4, 0, number))
    lines += [(equal, 0, 3, mmap), (load, 0, 0, MAP_FLAGS_AT), (both, 0, 0, MAP_SHARED_ANONYMOUS)]
    lines += [(equal, 1, 0, MAP_SHARED_ANONYMOUS)]
    lines += [(give, 0, 0, RET_ALLOW), (give, 0, 0, RET_ERRNO | errno.EPERM)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
