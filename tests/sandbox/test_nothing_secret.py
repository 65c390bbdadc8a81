"""From inside the learner's kernel: nothing there holds the reference, a hidden test, a secret or the gradebook."""

import hashlib
import os
from pathlib import Path

import nbformat
import psutil
import pytest

from autograder.grade import course_secret
from autograder.probe import Learner
from autograder.sandbox.bubblewrap import ENVIRONMENT, NOBODY, SHARED_FILES
from autograder.session import Session

SCAN = Path(__file__).with_name("scan.py").read_text()


def marker(line: str) -> dict[str, object]:
    """A line as its beginning and the hash of its rest: the scanner can look for it without holding it."""
    head, tail = line[:16].encode(), line[16:48].encode()
    return {"head": head.decode(), "length": len(tail), "hash": hashlib.sha256(tail).hexdigest()}


@pytest.fixture(scope="module")
def scanned(zygote, bench, course):
    secrets = {
        "solution": "nowhere = ~keep.any(dim=-1, keepdim=True)\n",
        "hidden test": next(x for x in bench.topic.hidden.read_text().splitlines() if 'what=f" of {length} by' in x),
        "slip": bench.slips[0].sentence,
        "secret": course_secret(course).decode(),
    }
    for name, line in secrets.items():
        assert len(line.strip()) > 30, name
    cells = [(nbformat.v4.new_code_cell(SCAN), "answer")]
    with Session(zygote, cells) as session:
        session.patient = True
        learner = Learner(session, ["scan"])
        yield learner.scan({name: marker(line.strip()) for name, line in secrets.items()})


def test_the_scanner_finds_what_is_there(zygote):
    cells = [
        (nbformat.v4.new_code_cell(SCAN + "\nkept = 'a line that stands in memory and ' + 'nowhere else at all'"), "x")
    ]
    with Session(zygote, cells) as session:
        session.patient = True
        found = Learner(session, ["scan"]).scan(
            {"planted": marker("a line that stands in memory and nowhere else at all")}
        )
    assert found["memory"] == ["planted"]


def test_memory_holds_nothing(scanned):
    assert scanned["memory"] == []


def test_files_hold_nothing(scanned):
    assert scanned["files"] == []
    assert scanned["files_read"] >= len(SHARED_FILES)


def test_environment_holds_nothing(scanned):
    assert set(scanned["environment"]) <= set(ENVIRONMENT) | {
        "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE", "MPLBACKEND", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TERM",
    }  # fmt: skip


def test_no_process_but_its_own(scanned):
    assert len(scanned["processes"]) == 2  # the first process of the namespace, and the kernel


def test_no_network_but_its_own_sockets(scanned):
    assert scanned["interfaces"] == ["lo"] or scanned["interfaces"] == []
    assert scanned["connect"] != "connected"


def test_the_user_has_no_power(scanned):
    assert scanned["capabilities"] == 0 and scanned["no_new_privs"] == 1
    assert scanned["uid"] == 1000
    assert scanned["namespace"] != "made"
    assert scanned["written"] == ["/dev/shm", "/sandbox/tmp", "/sandbox/work"]


@pytest.mark.skipif(os.geteuid() != 0, reason="as an ordinary user the sandbox runs as that user")
def test_as_root_no_process_of_the_sandbox_is_the_hosts_root(zygote):
    with Session(zygote, [(nbformat.v4.new_code_cell("x = 1"), "x")]):
        children = psutil.Process(zygote._process.pid).children(recursive=True)
        inside = [p for p in children if "autograder.sandbox.zygote" in p.cmdline()]
        assert len(inside) >= 4  # zygote, keeper, first process, kernel
        assert {p.uids().real for p in inside} == {NOBODY}


def test_nothing_is_left_after_a_submission(zygote):
    code = "import subprocess, os\nsubprocess.Popen(['sleep', '1000'])\nopen('/sandbox/work/left', 'w').write('x')\n"
    code += "if os.fork() == 0:\n    os.setsid()\n    import time; time.sleep(1000)\n"
    before = set(psutil.Process(zygote._process.pid).children(recursive=True))
    with Session(zygote, [(nbformat.v4.new_code_cell(code), "x")]):
        pass
    gone = psutil.wait_procs(set(psutil.Process(zygote._process.pid).children(recursive=True)) - before, timeout=5)
    assert gone[1] == []
    with Session(
        zygote, [(nbformat.v4.new_code_cell("import os\ndef look():\n    return os.listdir('/sandbox/work')"), "x")]
    ) as s:
        assert "left" not in Learner(s, ["look"]).look()
