"""`python -m tests.benchmarks.grading [ROUNDS]`: one submission of topic 02, from file to gradebook.

Three ways in turn, in one run: this course's grader in its sandbox, the same without a sandbox, and nbgrader's own
`autograde` as it comes, on the same notebook with its own configuration. Medians, so that a slow second counts little.
"""

from __future__ import annotations

import logging
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import nbformat
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.bench import Bench
from autograder.build import build
from autograder.course import Course, find_course
from autograder.grade import Grader, course_secret
from autograder.grading import store, verdict_key
from autograder.record import course_directory, record
from autograder.release import release
from autograder.sample import _with_metadata, fill
from autograder.sandbox.host import Zygote

KEY = "02_scaled_dot_product"
PHASES = ("kernel", "cells", "hidden tests", "diagnosis")


def small_course(root: Path) -> Course:
    """A course with topic 02 alone and one learner's submission, in a folder of its own."""
    whole = find_course(Path(__file__).parent)
    shutil.copytree(whole.solutions / KEY, root / "solutions" / KEY)
    shutil.copy(whole.root / "nbgrader_config.py", root)
    course = Course(root)
    topic = course.topic(KEY)
    release(topic)
    answers = (whole.sample_class / KEY / "einsum.py").read_text(encoding="utf-8")
    path = course.submitted / "ada" / KEY / topic.notebook
    path.parent.mkdir(parents=True)
    nbformat.write(fill(_with_metadata(topic.exercise), answers), path)
    return course


def ours(course: Course, bench: Bench, zygote: Zygote, times: dict[str, list[float]]) -> None:
    """Grade the submission and record it; the time of each phase."""
    topic = course.topic(KEY)
    path = course.submitted / "ada" / KEY / topic.notebook
    secret = course_secret(course)
    shutil.rmtree(course.verdicts, ignore_errors=True)
    began = time.perf_counter()
    verdict = Grader(bench, zygote, secret).grade_file(path, topic.notebook)
    graded = time.perf_counter()
    stored = store(topic, "ada", verdict, verdict_key(topic, path, secret, sandboxed=zygote.sandboxed))
    if zygote.sandboxed:
        record(topic, "ada", stored)
        times["gradebook"].append(time.perf_counter() - graded)
    for phase in PHASES:
        times[phase].append(verdict.timings.get(phase, 0.0))
    times["file to verdict"].append(graded - began)
    if verdict.score != verdict.max_score:
        raise SystemExit(f"the right answer earned {verdict.score}")


def stock_directory(course: Course, root: Path) -> tuple[CourseDirectory, Config]:
    """The same exercise and submission under nbgrader's own defaults, its test cells the visible checks."""
    topic = course.topic(KEY)
    source = root / "source" / KEY
    source.mkdir(parents=True)
    shutil.copy(build(topic), source / topic.notebook)
    submitted = root / "submitted" / "ada" / KEY
    submitted.mkdir(parents=True)
    shutil.copy(course.submitted / "ada" / KEY / topic.notebook, submitted)
    config = Config({"CourseDirectory": {"root": str(root), "db_url": f"sqlite:///{root}/gradebook.db"}})
    directory = CourseDirectory(config=config)
    directory.assignment_id = KEY
    run_converter(GenerateAssignment, directory, config)
    return directory, config


def run_converter(kind: type, directory: CourseDirectory, config: Config) -> None:
    converter = kind(coursedir=directory, config=config)
    converter.log = logging.getLogger("benchmark")
    converter.log.setLevel(logging.CRITICAL)
    converter.force = True
    converter.start()


def main() -> int:
    warnings.simplefilter("ignore")
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        course = small_course(Path(folder) / "course")
        os.environ["ATTENTION_COURSE"] = str(course.root)
        os.chdir(course.root)
        bench = replace(Bench.of(course.topic(KEY)), _diagnosers={})
        course_directory(course)
        directory, config = stock_directory(course, Path(folder) / "stock")
        began = time.perf_counter()
        with Zygote() as sandboxed, Zygote(sandboxed=False) as bare:
            print(f"both zygotes started in {time.perf_counter() - began:.1f} s, once for a whole class")
            for _ in range(rounds):
                ours(course, bench, sandboxed, times["in the sandbox"])
                ours(course, bench, bare, times["without sandbox"])
                began = time.perf_counter()
                run_converter(Autograde, directory, config)
                times["stock nbgrader"]["file to gradebook"].append(time.perf_counter() - began)
    for way, phases in times.items():
        print(f"\n{way} (median of {rounds}, seconds)")
        for phase, seconds in phases.items():
            print(f"  {phase:18} {statistics.median(seconds):7.3f}   {min(seconds):.3f} to {max(seconds):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
