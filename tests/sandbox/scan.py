"""Runs in the learner's kernel: everything that a curious learner could look at."""

import hashlib
import os
import re
import socket
import sys


def holds(data, markers):
    found = []
    for name, marker in markers.items():
        head = marker["head"].encode()
        for match in re.finditer(re.escape(head), data):
            tail = data[match.end() : match.end() + marker["length"]]
            if hashlib.sha256(tail).hexdigest() == marker["hash"]:
                found.append(name)
                break
    return found


def memory(markers):
    found = set()
    for line in open("/proc/self/maps"):
        span, rights = line.split()[:2]
        if not rights.startswith("rw"):
            continue
        start, end = (int(part, 16) for part in span.split("-"))
        with open("/proc/self/mem", "rb", 0) as file:
            try:
                file.seek(start)
                data = file.read(end - start)
            except (OSError, ValueError, OverflowError, MemoryError):
                continue
        found |= set(holds(data, markers))
    return sorted(found)


def files(markers):
    """Contents of all that is not the system's or Python's own; names everywhere."""
    own = ("/usr", "/proc", "/dev", sys.prefix, sys.base_prefix)
    suspicious = ("topic.py", "hidden.py", "slips.py", "gradebook.db", "secret")
    found, count = [], 0
    for folder, folders, names in os.walk("/"):
        if folder.startswith("/proc"):
            folders.clear()
            continue
        for name in names:
            path = os.path.join(folder, name)
            if name in suspicious and "site-packages" not in folder and "/usr/" not in folder:
                found.append(path)
            if not folder.startswith(own):
                try:
                    data = open(path, "rb").read(1 << 20)
                except OSError:
                    continue
                count += 1
                found += [f"{path}: {name}" for name in holds(data, markers)]
    return found, count


def writable():
    found = []
    for folder in ("/", "/dev", "/dev/shm", "/opt/course", "/proc/sys/kernel", "/sandbox", "/sandbox/tmp",
                   "/sandbox/work", "/usr", sys.prefix, "/etc"):  # fmt: skip
        try:
            path = os.path.join(folder, ".try")
            open(path, "w").close()
            os.unlink(path)
            found.append(folder)
        except OSError:
            continue
    return found


def attempt(action):
    try:
        action()
        return "connected"
    except OSError as error:
        return type(error).__name__


def unshare():
    import ctypes

    return "made" if ctypes.CDLL(None).unshare(0x10000000) == 0 else "refused"


def scan(markers):
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line)
    found, count = files(markers)
    return {
        "memory": memory(markers),
        "files": found,
        "files_read": count,
        "environment": sorted(os.environ),
        "processes": [name for name in os.listdir("/proc") if name.isdigit()],
        "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]],
        "connect": attempt(lambda: socket.create_connection(("127.0.0.1", 22), timeout=1)),
        "capabilities": int(status["CapEff"], 16) | int(status["CapPrm"], 16) | int(status["CapBnd"], 16),
        "no_new_privs": int(status["NoNewPrivs"]),
        "uid": os.getuid(),
        "namespace": unshare(),
        "written": writable(),
    }
