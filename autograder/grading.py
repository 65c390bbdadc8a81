"""A class of submissions -> verdicts on disk, through any `concurrent.futures.Executor`.

A verdict is kept under the hash of the submission and of everything it depends on, so that a step that was stopped
goes on where it was, and the same submission is graded once.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.bench import Bench
from autograder.build import write_whole
from autograder.course import Course, Topic
from autograder.grade import Grader, course_digest, course_secret, file_hash
from autograder.sandbox.host import Zygote
from autograder.sandbox.limits import Limits
from autograder.verdict import Outcome, Verdict


@dataclass(frozen=True)
class Task:
    """One submission to grade, as it is sent to a worker. The secret travels with it and stays out of the sandbox."""

    root: str
    topic: str
    path: str
    label: str
    secret: bytes
    sandboxed: bool = True
    limits: Limits = field(default_factory=Limits)


@functools.lru_cache(maxsize=16)
def _bench_at(root: str, key: str, digest: str) -> Bench:
    return Bench.of(Topic(Course(Path(root)), key))


def bench_of(topic: Topic) -> Bench:
    """The bench of a topic; made again when its files change."""
    files = [p for p in (topic.text, topic.hidden, topic.slips, topic.variants) if p.exists()]
    stamp = ",".join(f"{p.stat().st_mtime_ns}" for p in files)
    return _bench_at(str(topic.course.root), topic.key, stamp)


class _Zygotes:
    """One running zygote for each kind of sandbox that this process was asked for."""

    def __init__(self) -> None:
        self._running: dict[tuple[bool, Limits], Zygote] = {}
        atexit.register(self.close)

    def get(self, sandboxed: bool, limits: Limits) -> Zygote:
        key = (sandboxed, limits)
        if key not in self._running:
            self._running[key] = Zygote(limits, sandboxed=sandboxed)
        return self._running[key]

    def drop(self, sandboxed: bool, limits: Limits) -> None:
        zygote = self._running.pop((sandboxed, limits), None)
        if zygote is not None:
            zygote.close()

    def close(self) -> None:
        for zygote in self._running.values():
            zygote.close()
        self._running.clear()


@functools.lru_cache(maxsize=1)
def _zygotes() -> _Zygotes:
    return _Zygotes()


def grade_one(task: Task) -> Verdict:
    """Runs in a worker. A zygote that broke is replaced once; what still fails then is a grader fault."""
    bench = bench_of(Topic(Course(Path(task.root)), task.topic))
    verdict = None
    for _attempt in range(2):
        zygote = _zygotes().get(task.sandboxed, task.limits)
        verdict = Grader(bench, zygote, task.secret).grade_file(Path(task.path), task.label)
        if verdict.outcome is not Outcome.GRADER_FAULT:
            return verdict
        _zygotes().drop(task.sandboxed, task.limits)
    assert verdict is not None
    return verdict


def grade_many(tasks: Iterable[Task], workers: int, executor: Executor | None = None) -> Iterator[tuple[Task, Verdict]]:
    """Verdicts in the order in which they come. One worker runs here; more run in a pool, or in `executor`."""
    tasks = list(tasks)
    if executor is None and (workers <= 1 or len(tasks) <= 1):
        for task in tasks:
            yield task, grade_one(task)
        return
    pool = executor or ProcessPoolExecutor(max_workers=min(workers, len(tasks)))
    try:
        futures = {pool.submit(grade_one, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], _result(future.result, futures[future])
    finally:
        if executor is None:
            pool.shutdown(cancel_futures=True)


def _result(result: Callable[[], Verdict], task: Task) -> Verdict:
    try:
        return result()
    except Exception as error:  # a worker that was killed takes the pool with it: for a person, and for the next run
        message = f"The worker ended ({type(error).__name__}). Run the command again."
        return Verdict(task.topic, task.label, Outcome.GRADER_FAULT, notes=(message,), sandboxed=task.sandboxed)


# -- verdicts on disk ------------------------------------------------------------------------------------------------


def submissions(topic: Topic, student: str | None = None) -> dict[str, Path]:
    """The submitted notebooks of a topic, by student."""
    found = sorted(topic.course.submitted.glob(f"*/{topic.key}/{topic.notebook}"))
    return {p.parent.parent.name: p for p in found if student in (None, p.parent.parent.name)}


def verdict_path(topic: Topic, student: str) -> Path:
    return topic.course.verdicts / topic.key / f"{student}.json"


def verdict_key(topic: Topic, path: Path, secret: bytes, *, sandboxed: bool = True) -> str:
    """Hash of the submission, then of all else that its verdict depends on."""
    mark = "" if sandboxed else "-nosandbox"
    return f"{file_hash(path)}-{course_digest(bench_of(topic), secret)}{mark}"


def stored_verdict(topic: Topic, student: str, key: str) -> Verdict | None:
    """The verdict under this key, if it is there and is whole."""
    try:
        verdict = Verdict.from_json(verdict_path(topic, student).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return verdict if verdict.key == key and verdict.outcome is not Outcome.GRADER_FAULT else None


def store(topic: Topic, student: str, verdict: Verdict, key: str) -> Verdict:
    """Write a verdict whole or not at all."""
    verdict = replace(verdict, key=key)
    write_whole(verdict_path(topic, student), verdict.to_json())
    return verdict


def verdict_of(topic: Topic, student: str) -> Verdict:
    """The verdict on a student's submission: the stored one while nothing changed, else a new one."""
    path = topic.course.submitted / student / topic.key / topic.notebook
    secret = course_secret(topic.course)
    for sandboxed in (True, False):
        key = verdict_key(topic, path, secret, sandboxed=sandboxed)
        stored = stored_verdict(topic, student, key)
        if stored is not None:
            return stored
    task = Task(str(topic.course.root), topic.key, str(path), topic.notebook, secret)
    return store(topic, student, grade_one(task), verdict_key(topic, path, secret))
