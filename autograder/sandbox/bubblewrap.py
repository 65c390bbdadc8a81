"""The command that builds the sandbox around the zygote, and the reasons why a machine can't."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NOBODY = 65534
INSIDE = Path("/opt/course")
# The learner's folders. Not /work and /tmp themselves: the course, and with it Python, may stand below those.
PRIVATE = "/sandbox"
PACKAGE = Path(__file__).resolve().parent.parent
# All of this package that the sandbox gets to see: the encoding, the stub, and what starts them.
SHARED_FILES = (
    "__init__.py", "codec.py", "sandbox/__init__.py", "sandbox/stub.py", "sandbox/fake.py", "sandbox/syscalls.py",
    "sandbox/shell.py", "sandbox/watch.py", "sandbox/zygote.py",
)  # fmt: skip
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime")
ENVIRONMENT = {
    "TMPDIR": f"{PRIVATE}/tmp",
    "HOME": f"{PRIVATE}/tmp",
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONPATH": str(INSIDE),
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "MPLCONFIGDIR": f"{PRIVATE}/tmp",
    "IPYTHONDIR": f"{PRIVATE}/tmp/ipython",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "TORCHINDUCTOR_CACHE_DIR": f"{PRIVATE}/tmp",
}


class NoSandbox(Exception):
    """No sandbox can be had on this machine; the message says why and what to do."""


def command(program: list[str]) -> list[str]:
    """The command line that runs `program` in the sandbox. Inherited descriptors are its only way out.

    As root, the program runs as the user `nobody`: learner code is then never the host's root, whatever it escapes
    into. Bubblewrap maps only the user that starts it, so a first bubblewrap lays out the files and changes the user,
    and a second one makes the namespaces.
    """
    walls = [
        "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-add", "ALL",
        "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--hostname", "sandbox", "--die-with-parent", "--new-session",
    ]  # fmt: skip
    private = ["--dev", "/dev", "--proc", "/proc", "--tmpfs", f"{PRIVATE}/work", "--tmpfs", f"{PRIVATE}/tmp"]
    environment = ["--clearenv", *(part for item in ENVIRONMENT.items() for part in ("--setenv", *item))]
    if os.geteuid() != 0:
        tree = _tree()
        return ["bwrap", *walls, *tree, *private, "--remount-ro", "/", *environment, "--chdir", "/", *program]
    lay_out = [*_tree(), "--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc"]
    inner = ["bwrap", *walls, "--ro-bind", "/", "/", *private, *environment]
    change = f"import os, sys; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); "
    change += "os.execv(sys.argv[1], sys.argv[2:])"
    bwrap = shutil.which("bwrap") or "bwrap"
    return [
        "bwrap", "--die-with-parent", *lay_out, "--chdir", "/", _python(), "-I", "-S", "-c", change,
        bwrap, *inner, "--chdir", "/", *program,
    ]  # fmt: skip


def program(control: int, limits: str, *, bare: bool = False) -> list[str]:
    """The zygote's own command line. `control` is the number of the inherited socket."""
    mode = "bare" if bare else "walled"
    return [_python(), "-s", "-P", "-m", "autograder.sandbox.zygote", str(control), limits, mode]


def _python() -> str:
    return sys.executable


def _tree() -> list[str]:
    """The read-only files: the system, Python, and the few shared files of this package."""
    binds: list[str] = []
    for path in SYSTEM:
        if os.path.islink(path):
            binds += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            binds += ["--ro-bind", path, path]
    made: set[Path] = {Path("/")}
    for path in SYSTEM_FILES:
        binds += [*_parents(Path(path), made), "--ro-bind-try", path, path]
    for prefix in dict.fromkeys([sys.base_prefix, sys.prefix]):
        if not prefix.startswith("/usr"):
            binds += [*_parents(Path(prefix), made), "--ro-bind", prefix, prefix]
    for name in SHARED_FILES:
        target = INSIDE / "autograder" / name
        binds += [*_parents(target, made), "--ro-bind", str(PACKAGE / name), str(target)]
    for folder in ("work", "tmp"):
        binds += [*_parents(Path(PRIVATE, folder, "x"), made)]
    if Path("/tmp") not in made:
        binds += ["--symlink", f"{PRIVATE}/tmp", "/tmp"]
    return binds


def _parents(path: Path, made: set[Path]) -> list[str]:
    """Make the folders above a path readable: bubblewrap alone would make them for their owner only."""
    new = [parent for parent in reversed(path.parents) if parent not in made]
    made.update(new)
    return [part for parent in new for part in ("--perms", "0755", "--dir", str(parent))]


def why_none() -> str | None:
    """Why this machine can't make a sandbox, and what to do; None when it can."""
    if not sys.platform.startswith("linux"):
        return f"the sandbox needs Linux namespaces, and this is {sys.platform}. Grade on Linux, or in a Linux VM."
    if shutil.which("bwrap") is None:
        return (
            "bubblewrap is missing. Install it: apt-get install bubblewrap (dnf, pacman and zypper name it the same)."
        )
    test = [
        "bwrap",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "true",
    ]
    result = subprocess.run(test, capture_output=True, text=True, timeout=20)
    if result.returncode == 0:
        return None
    return f"bubblewrap does not start ({result.stderr.strip()[:200]}). {_advice()}"


def _advice() -> str:
    switches = {
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
            "1",
            "AppArmor forbids user namespaces. Allow them: sysctl kernel.apparmor_restrict_unprivileged_userns=0, "
            "or add an AppArmor profile for bwrap.",
        ),
        "/proc/sys/kernel/unprivileged_userns_clone": (
            "0",
            "The system forbids user namespaces. Allow them: sysctl kernel.unprivileged_userns_clone=1.",
        ),
        "/proc/sys/user/max_user_namespaces": (
            "0",
            "The system allows no user namespaces. Allow them: sysctl user.max_user_namespaces=10000.",
        ),
    }
    for path, (bad, advice) in switches.items():
        if Path(path).exists() and Path(path).read_text().strip() == bad:
            return advice
    return (
        "A container's seccomp rules or masked /proc may forbid it: run the container with "
        "--security-opt seccomp=unconfined --security-opt systempaths=unconfined, or grade outside a container."
    )
