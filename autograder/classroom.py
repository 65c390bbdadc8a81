"""The steps over a whole course: grade what is new and record it, write feedback, prove the exercises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

from autograder.course import Course, Topic
from autograder.grade import course_secret
from autograder.grading import Task, grade_many, store, stored_verdict, submissions, verdict_key
from autograder.record import record
from autograder.sandbox import bubblewrap
from autograder.sandbox.bubblewrap import NoSandbox
from autograder.verdict import Outcome, Verdict


@dataclass(frozen=True)
class Graded:
    """One submission with its verdict; `fresh` when it was graded in this run."""

    topic: Topic
    student: str
    verdict: Verdict
    fresh: bool


def require_sandbox(sandboxed: bool) -> None:
    """Raises NoSandbox with the reason when a sandbox is wanted and can't be had."""
    reason = bubblewrap.why_none() if sandboxed else None
    if reason:
        raise NoSandbox(f"No sandbox, no grading: {reason} (`autograder doctor` tells more.)")


def grade_course(
    course: Course,
    *,
    topic: str | None = None,
    student: str | None = None,
    workers: int = 1,
    sandboxed: bool = True,
    executor: Executor | None = None,
    progress: Callable[[int, int, str], None] = lambda done, total, label: None,
) -> list[Graded]:
    """Grade what is new and bring the gradebook up to date. Safe to stop and to repeat.

    progress: called with (done, total, label). Raises NoSandbox.
    """
    require_sandbox(sandboxed)
    topics = [course.topic(topic)] if topic else course.topics()
    secret = course_secret(course)
    graded: list[Graded] = []
    tasks: dict[Task, tuple[Topic, str, str]] = {}
    for each in topics:
        for name, path in submissions(each, student).items():
            key = verdict_key(each, path, secret, sandboxed=sandboxed)
            stored = stored_verdict(each, name, key)
            if stored is not None:
                graded.append(Graded(each, name, stored, fresh=False))
            else:
                task = Task(str(course.root), each.key, str(path), each.notebook, secret, sandboxed)
                tasks[task] = (each, name, key)
    total = len(graded) + len(tasks)
    for task, verdict in grade_many(tasks, workers, executor):
        each, name, key = tasks[task]
        graded.append(Graded(each, name, store(each, name, verdict, key), fresh=True))
        progress(len(graded), total, f"{name} {each.key}")
    graded.sort(key=lambda g: (g.topic.key, g.student))
    for one in graded:
        record(one.topic, one.student, one.verdict)
    return graded


def verdicts(course: Course) -> Iterator[tuple[Topic, str, Verdict]]:
    """The verdicts on disk, by topic and student."""
    for topic in course.topics():
        for path in sorted((course.verdicts / topic.key).glob("*.json")):
            try:
                yield topic, path.stem, Verdict.from_json(path.read_text(encoding="utf-8"))
            except (ValueError, KeyError, TypeError):
                continue


def faults(graded: list[Graded]) -> list[Graded]:
    """Those that a person has to look at."""
    return [g for g in graded if g.verdict.outcome is Outcome.GRADER_FAULT]
