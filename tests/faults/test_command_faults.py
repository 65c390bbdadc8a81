"""`autograder grade` killed at many moments, and run twice at once: the scores of an undisturbed run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

import autograder
from autograder import sample
from autograder.classroom import verdicts
from autograder.intake import intake
from autograder.record import course_directory
from autograder.release import release

EXPECTED = {"einsum": 9.0, "blank": 0.0}
KILLED_AFTER_S = (3.0, 5.0, 7.0, 9.0, 12.0, 15.0)


@pytest.fixture
def class_of_two(small_course, monkeypatch):
    topic = small_course.topics()[0]
    release(topic)
    every = sample.sample_answers(small_course, topic)
    monkeypatch.setattr(sample, "sample_answers", lambda *_: {name: every[name] for name in EXPECTED})
    inbox = small_course.root / "inbox"
    sample.write_inbox(small_course, inbox)
    intake(small_course, inbox)
    return small_course


def start(course) -> subprocess.Popen:
    package = str(Path(autograder.__file__).parent.parent)
    environment = {**os.environ, "ATTENTION_COURSE": str(course.root), "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-m", "autograder", "grade"]
    log = (course.root / "log").open("ab")
    return subprocess.Popen(program, cwd=course.root, env=environment, start_new_session=True, stdout=log, stderr=log)


def recorded(course) -> dict[str, float]:
    with Gradebook(course_directory(course)[0].db_url) as gradebook:
        return {s.student.id: s.score for s in gradebook.assignment_submissions(course.topics()[0].key)}


@pytest.mark.slow
def test_killed_at_many_moments(class_of_two):
    for seconds in KILLED_AFTER_S:
        process = start(class_of_two)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert start(class_of_two).wait(240) == 0, (class_of_two.root / "log").read_text()[-2000:]
    assert recorded(class_of_two) == EXPECTED
    assert {student: v.score for _topic, student, v in verdicts(class_of_two)} == EXPECTED


@pytest.mark.slow
def test_two_graders_at_once(class_of_two):
    codes = [process.wait(300) for process in [start(class_of_two) for _ in range(2)]]
    if any(codes):
        assert start(class_of_two).wait(240) == 0, (class_of_two.root / "log").read_text()[-2000:]
    assert recorded(class_of_two) == EXPECTED
