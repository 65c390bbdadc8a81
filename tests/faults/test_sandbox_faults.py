"""The zygote, a kernel, a worker or the grader ends at any moment: never a zero that is not the learner's."""

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest

from autograder.grade import Grader
from autograder.grading import Task, _Zygotes, grade_many, grade_one
from autograder.probe import Learner
from autograder.sandbox.host import SandboxEnded, Zygote
from autograder.session import Session
from autograder.verdict import Outcome

RIGHT = Path(__file__).parent.parent / "submissions/02_scaled_dot_product/einsum.py"


def end(zygote: Zygote) -> None:
    """Kill the zygote itself, and not only what started it."""
    inside = psutil.Process(zygote._process.pid).children(recursive=True)
    next(p for p in inside if p.cmdline() and "python" in p.cmdline()[0]).kill()


def cells(source: str) -> list:
    return [(nbformat.v4.new_code_cell(source), "answer")]


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8])
def test_a_zygote_killed_while_it_grades_is_a_grader_fault_and_no_zero(bench, after_s):
    with Zygote() as zygote:
        grader = Grader(replace(bench, slips=[], _diagnosers={}), zygote, b"a secret of the tests")
        timer = threading.Timer(after_s, lambda: end(zygote))
        timer.start()
        verdict = grader.grade_file(RIGHT)
        timer.join()
    expected = (Outcome.GRADER_FAULT, Outcome.PASS)
    assert [(i.outcome, i.message) for i in verdict.items if i.outcome not in expected] == []


def test_a_zygote_that_ended_is_replaced(course, bench, monkeypatch):
    broken = Zygote()
    end(broken)
    broken._process.wait(10)
    given, pool = [broken], _Zygotes()
    monkeypatch.setattr("autograder.grading.Zygote", lambda *a, **k: given.pop() if given else Zygote(*a, **k))
    monkeypatch.setattr("autograder.grading._zygotes", lambda: pool)
    task = Task(str(course.root), bench.topic.key, str(RIGHT), "x", b"a secret of the tests")
    assert grade_one(task).score == 9 and given == []
    pool.close()


def test_a_kernel_asked_for_after_the_end_says_so():
    with Zygote() as zygote:
        end(zygote)
        zygote._process.wait(10)
        with pytest.raises(SandboxEnded):
            zygote.poll(zygote.spawn(), 5.0)


@pytest.mark.parametrize("victim", [0, 1, 2], ids=["keeper", "first process", "kernel"])
def test_the_end_of_any_process_of_a_kernel_ends_all_of_it(zygote, victim):
    root = psutil.Process(zygote._process.pid)
    before = set(root.children(recursive=True))
    with Session(zygote, cells("import subprocess\nsubprocess.Popen(['sleep', '1000'])")):
        new = sorted(set(root.children(recursive=True)) - before, key=lambda p: len(p.parents()))
        assert len(new) == 4  # keeper, first process, kernel, and what the kernel started
        new[victim].send_signal(signal.SIGKILL)
        assert psutil.wait_procs(new, timeout=10)[1] == []


def test_a_kernel_that_was_ended_is_replaced_for_the_next_call(zygote):
    with Session(zygote, cells("def f():\n    return 1")) as session:
        learner = Learner(session, ["f"])
        assert learner.f() == 1
        session.close()
        assert learner.f() == 1


def test_a_worker_that_is_killed_leaves_a_fault_and_the_next_run_grades(course, bench):
    tasks = [Task(str(course.root), bench.topic.key, str(RIGHT), str(n), b"a secret of the tests") for n in range(4)]
    with ProcessPoolExecutor(max_workers=2) as pool:
        victim = pool.submit(os.getpid).result()
        killer = threading.Timer(0.5, lambda: os.kill(victim, signal.SIGKILL))
        killer.start()
        first = dict(grade_many(tasks, 2, pool))
        killer.join()
    assert len(first) == 4
    assert all(v.score == 9 or v.outcome is Outcome.GRADER_FAULT for v in first.values())
    lost = [task for task in tasks if first[task].outcome is Outcome.GRADER_FAULT]
    assert lost and all(verdict.score == 9 for _task, verdict in grade_many(lost[:1], 1))


def test_closing_a_zygote_ends_all_of_it():
    zygote = Zygote()
    inside = [psutil.Process(zygote._process.pid), *psutil.Process(zygote._process.pid).children(recursive=True)]
    zygote.close()
    assert psutil.wait_procs(inside, timeout=10)[1] == []


def test_a_grader_that_is_killed_takes_its_sandbox_along():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(Zygote()._process.pid).encode())
        time.sleep(100)
        os._exit(0)
    sandbox = psutil.Process(int(os.read(read, 20)))
    inside = [sandbox, *sandbox.children(recursive=True)]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert psutil.wait_procs(inside, timeout=10)[1] == []
    os.close(read)
    os.close(write)
