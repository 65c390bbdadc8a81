"""Every limit of `Limits`, each met by learner code, and the sandbox as an ordinary user."""

import ast
import os
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import nbformat
import pytest

from autograder.codec import BadFrame
from autograder.probe import CallTimeout, KernelDied, Learner, LearnerError
from autograder.sandbox import bubblewrap
from autograder.sandbox.host import Zygote
from autograder.sandbox.limits import Limits
from autograder.session import Session

TIGHT = Limits(
    memory_mib=700, total_memory_mib=600, processes=12, open_files=48, file_mib=2, disk_mib=4, cpu_s=8, cell_s=3.0,
    call_s=2.0, training_s=6.0, total_s=40.0, output_bytes=1_000, frame_mib=2, channel_mib=5, callbacks=20, restarts=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def tight():
    with Zygote(TIGHT) as zygote:
        yield zygote


def session(zygote: Zygote, *sources: str, role: str = "answer") -> Session:
    return Session(zygote, [(nbformat.v4.new_code_cell(source), role) for source in sources])


def call(zygote: Zygote, body: str):
    with session(
        zygote, "import os, time, torch\ndef f(*args):\n" + "".join(f"    {x}\n" for x in body.split("\n"))
    ) as s:
        return Learner(s, ["f"]).f()


def test_memory_of_one_process(tight):
    with pytest.raises(LearnerError) as error:
        call(tight, "return torch.ones(2**29)")
    assert error.value.is_memory


def test_memory_of_all_processes(tight):
    forks = "for _ in range(5):\n    if os.fork() == 0:\n        hold = bytearray(b'x') * (200 * 2**20)\n"
    with pytest.raises(KernelDied) as error:
        call(tight, forks + "        time.sleep(30)\ntime.sleep(30)")
    assert error.value.memory


def test_memory_that_a_process_hides(tight):
    forks = (
        "import ctypes, mmap\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nheld = mmap.mmap(-1, 700 * 2**20, 0x22)\n"
        "for at in range(0, len(held), 4096): held[at] = 1\ntime.sleep(30)"
    )
    with pytest.raises(KernelDied) as error:
        call(tight, forks)
    assert error.value.memory


def test_processes_and_threads(tight):
    with pytest.raises((LearnerError, KernelDied)):
        call(tight, "for _ in range(40):\n    if os.fork() == 0: time.sleep(30)\nreturn 1")
    with pytest.raises(LearnerError):
        call(tight, "import threading\nfor _ in range(40): threading.Thread(target=time.sleep, args=(9,)).start()")


def test_open_files(tight):
    with pytest.raises(LearnerError, match="Too many open files"):
        call(tight, "return [os.pipe() for _ in range(100)]")


def test_size_of_one_file(tight):
    with pytest.raises((LearnerError, KernelDied), match=r"too large|stopped"):
        call(tight, "open('x', 'wb').write(b'x' * (3 * 2**20))")


@pytest.mark.parametrize("folder", ["/sandbox/work", "/sandbox/tmp", "/dev/shm"])
def test_disk(tight, folder):
    with pytest.raises(LearnerError, match="No space left"):
        call(tight, f"for n in range(9): open(f'{folder}/{{n}}', 'wb').write(b'x' * 2**20)")


def test_processor_time_of_all_processes(tight):
    with (
        pytest.raises(KernelDied, match="processor time"),
        session(tight, "import os\ndef f():\n    for _ in range(2): os.fork()\n    while True: pass") as s,
    ):
        learner = Learner(s, ["f"])
        s.patient = True
        learner.f()


def test_wall_time_of_a_cell_and_of_a_call(tight):
    began = time.monotonic()
    with session(tight, "while True: pass", "def f(): return 1") as s:
        assert s.runs[0].status == "timeout" and Learner(s, ["f"]).f() == 1
    assert 5.0 < time.monotonic() - began < 25.0  # the least time of an answer's cell is 5 s
    with pytest.raises(CallTimeout):
        call(tight, "while True: pass")


def test_cells_that_train_are_skipped_when_their_time_is_spent(tight):
    with session(tight, *["import time; time.sleep(2.5)"] * 5, role="free") as s:
        assert s.runs[-1].status == "skipped" and "were skipped" in s.notes[0]
        assert Learner(s, ["len"]).names(["x"]) == {}


def test_the_whole_submission(tight):
    with session(tight, "import time\ndef f(n): time.sleep(n)") as s:
        s._began -= 39.5
        with pytest.raises(CallTimeout):
            Learner(s, ["f"]).f(1.5)


def test_output(tight):
    with session(tight, "print('x' * 899)", "print('y' * 900)", "import os\nos.write(1, b'z' * 10**6)") as s:
        assert [len(run.printed) for run in s.runs] == [900, 100, 0]


def test_a_frame_and_all_frames(tight):
    with pytest.raises(BadFrame, match="larger than an answer may be"):
        call(tight, "return torch.zeros(2**20)")
    with session(tight, "import torch\ndef f(): return torch.zeros(2**18)") as s:
        learner = Learner(s, ["f"])
        with pytest.raises(BadFrame, match="submission's answers"):
            for _ in range(6):
                learner.f()


def test_callbacks(tight):
    with session(tight, "def f(module):\n    for _ in range(50): module(1)\n") as s:
        learner = Learner(s, ["f"])
        with pytest.raises(BadFrame, match="too often"):
            learner.f(learner.callback(lambda x: x))


def test_what_a_callback_is_called_with(tight):
    with session(tight, "import torch\ndef f(module, *sizes): return module(torch.zeros(1).expand(*sizes))") as s:
        learner = Learner(s, ["f"])
        module = learner.callback(lambda x: x.sum())
        assert learner.f(module, 2, 500) == 0
        for sizes in ((1, 1000), (300, 300), (2**24,)):
            with pytest.raises(LearnerError, match="more than"):
                learner.f(module, *sizes)


def test_restarts(tight):
    with session(tight, "import os\ndef f(): os._exit(1)\ndef g(): os._exit(1)\ndef h(): return 1") as s:
        learner = Learner(s, ["f", "g", "h"])
        for name in ("f", "f", "g"):
            with pytest.raises(KernelDied):
                getattr(learner, name)()
        with pytest.raises(KernelDied, match="too often"):
            learner.h()


def test_every_limit_has_a_test():
    text = Path(__file__).read_text()
    assert [f.name for f in fields(Limits) if f.name != "start_s" and f"{f.name}=" not in text] == []


def test_a_kernel_that_is_never_ready_is_the_graders_fault():
    from autograder.sandbox.host import SandboxEnded

    with Zygote(replace(TIGHT, start_s=0.0)) as zygote, pytest.raises(SandboxEnded), session(zygote, "x = 1"):
        pass


AS_USER = """
import os, sys, nbformat
assert os.getuid() == 65534
from autograder.sandbox.host import Zygote
from autograder.session import Session
from autograder.probe import Learner
SOURCE = '''
import os
def f():
    status = dict(line.split(':', 1) for line in open('/proc/self/status').read().splitlines())
    return [os.getuid(), int(status['CapEff'], 16), sorted(p for p in os.listdir('/proc') if p.isdigit()),
            os.path.exists('/etc/passwd'), os.path.exists(COURSE)]
'''
with Zygote() as zygote, Session(zygote, [(nbformat.v4.new_code_cell(f'COURSE = {sys.argv[1]!r}' + SOURCE), 'x')]) as s:
    print(Learner(s, ['f']).f())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_as_an_ordinary_user(course):
    whole = "/opt/whole"
    tree = [*bubblewrap._tree(), "--dir", whole, "--ro-bind", str(bubblewrap.PACKAGE), f"{whole}/autograder"]
    tree += ["--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc", "--perms", "1777", "--tmpfs", "/sandbox/tmp"]
    become = "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"
    inside = [sys.executable, "-c", AS_USER, str(course.solutions)]
    environment = {"PYTHONPATH": whole, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "TMPDIR": "/sandbox/tmp"}
    program = ["bwrap", "--die-with-parent", *tree, "--chdir", "/", sys.executable, "-I", "-S", "-c", become, *inside]
    result = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-2000:]
    uid, capabilities, processes, passwd, solutions = ast.literal_eval(result.stdout)
    assert (uid, capabilities, len(processes), passwd, solutions) == (1000, 0, 2, False, False)
