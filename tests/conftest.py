"""Fixtures that many tests share: the course, one sandbox for the session, and a grader of topic 02."""

import shutil
from pathlib import Path

import pytest
import torch

from autograder.bench import Bench
from autograder.course import Course, find_course
from autograder.grade import Grader
from autograder.sandbox.host import Zygote

FIRST = "02_scaled_dot_product"
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def course() -> Course:
    return find_course(Path(__file__).parent)


@pytest.fixture(scope="session")
def zygote():
    with Zygote() as zygote:
        yield zygote


@pytest.fixture(scope="session")
def bench(course: Course) -> Bench:
    return Bench.of(course.topic(FIRST))


@pytest.fixture(scope="session")
def grader(bench: Bench, zygote: Zygote) -> Grader:
    return Grader(bench, zygote, b"a secret of the tests")


@pytest.fixture
def small_course(course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    """A copy of the course with topic 02 alone, in a folder of its own."""
    root = tmp_path / "course"
    shutil.copytree(course.solutions / FIRST, root / "solutions" / FIRST)
    shutil.copytree(course.sample_class / FIRST, root / "tests" / "submissions" / FIRST)
    shutil.copy(course.root / "nbgrader_config.py", root)
    (root / "book").mkdir()
    monkeypatch.setenv("ATTENTION_COURSE", str(root))
    monkeypatch.chdir(root)
    return Course(root)
