"""One submission -> one verdict; many submissions -> an Executor.

The only step that meets learner code, and it meets it through the sandbox. It reads a notebook and returns a record;
it never touches the database.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from autograder.bench import Bench
from autograder.build import source_notebook
from autograder.codec import readable
from autograder.course import Course
from autograder.hidden import Result, run_tests
from autograder.probe import Learner
from autograder.reading import MAX_BYTES, Refused, bytes_of, parse_notebook, read_submission
from autograder.restore import restore, role_of
from autograder.sandbox.host import Zygote
from autograder.session import Session
from autograder.verdict import Item, ItemVerdict, Outcome, Verdict, worst


def course_secret(course: Course) -> bytes:
    """The secret that inputs are drawn from; made on first use, readable by its owner alone."""
    if not course.secret.exists():
        course.work.mkdir(parents=True, exist_ok=True)
        draft = course.secret.with_name(f".secret.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(32).encode())
        try:
            os.link(draft, course.secret)  # fails where another grader was first: then that secret counts
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    return course.secret.read_bytes()


@dataclass(frozen=True)
class Grader:
    """Grades submissions to one topic, one after the other, with one zygote."""

    bench: Bench
    zygote: Zygote
    secret: bytes

    def grade_file(self, path: Path, label: str | None = None) -> Verdict:
        """The verdict on a notebook, or on a `.py` that defines names of the topic. Never raises for a bad file."""
        name = label or str(path)
        try:
            notebook = read_submission(path)
        except Refused as error:
            return self._refused(name, str(error))
        return self.grade(notebook, name, whole=path.suffix != ".py")

    def grade(self, notebook: NotebookNode, label: str, *, whole: bool = True) -> Verdict:
        """The verdict on a notebook. whole: restore the exercise's locked cells around the answers first; otherwise
        only its imports and the functions that it gives are run before."""
        began = time.monotonic()
        notes: list[str] = []
        if whole:
            notebook, notes = restore(notebook, self.bench.notebook)
        else:
            given = [cell for cell in self.bench.notebook.cells if role_of(cell) in ("setup", "given")]
            notebook = NotebookNode(cells=[*given, *notebook.cells])
        cells = [(cell, role_of(cell)) for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
        session = Session(self.zygote, cells, notes)
        try:
            with session:
                results = self._run_tests(session)
            timings = {**session.timings, "total": time.monotonic() - began}
            slips = self._slips(results)
        except Exception as error:
            return self._fault(label, notes, error)
        timings["diagnosis"] = time.monotonic() - began - timings["total"]
        return Verdict(
            topic=self.bench.topic.key,
            file=label,
            outcome=worst([r.outcome for r in results.values()]),
            items=self._items(results, slips),
            notes=tuple(notes),
            sandboxed=self.zygote.sandboxed,
            timings=timings,
        )

    def _run_tests(self, session: Session) -> dict[str, Result]:
        began = time.monotonic()
        present = self._present(session)

        def make(record: Callable) -> Learner:
            return Learner(session, present, record, session.missing)

        table = run_tests(
            self.bench.topic.hidden,
            {"learner": make},
            self.bench.local(self.bench.reference),
            secret=self.secret,
            topic=self.bench.topic.key,
        )
        session.timings["hidden tests"] = time.monotonic() - began
        return table["learner"]

    def _present(self, session: Session) -> list[str]:
        try:
            found = Learner(session, ()).names(self.bench.names)
        except Exception:
            # A namespace that can't even be asked: every test will find out by itself why.
            return list(self.bench.names)
        return [name for name in self.bench.names if name in found]

    def _slips(self, results: dict[str, Result]) -> dict[str, str]:
        return self.bench.diagnoser(self.secret).slips(results)

    def _items(self, results: dict[str, Result], slips: dict[str, str]) -> tuple[ItemVerdict, ...]:
        sentences = {entry.id: entry.sentence for entry in self.bench.slips}
        return tuple(
            self._item(item, results.get(item.test, Result()), slips.get(item.test), sentences, results)
            for item in self.bench.items
        )

    def _item(self, item: Item, result: Result, slip: str | None, sentences: dict, results: dict) -> ItemVerdict:
        earned = item.points if result.outcome is Outcome.PASS else 0.0
        if result.outcome is Outcome.NOT_VERIFIED and self._others_pass(item, results):
            earned = item.points
        message = readable(result.message, 4_000)
        if slip is not None:
            message = f"{sentences[slip]} ({message})"
        elif result.outcome in (Outcome.FAIL, Outcome.ERROR) and item.hint and not message.startswith("The cell"):
            message = f"{message} Hint: {item.hint}"
        return ItemVerdict(item.grade_id, item.title, result.outcome, earned, item.points, message, slip)

    def _others_pass(self, item: Item, results: dict[str, Result]) -> bool:
        """Whether every other test that calls the same functions passes."""
        mine = _called(results[item.test])
        others = [r for test, r in results.items() if test != item.test and mine & _called(r)]
        return bool(others) and all(r.outcome.accepted for r in others)

    def _refused(self, label: str, reason: str) -> Verdict:
        items = tuple(
            ItemVerdict(i.grade_id, i.title, Outcome.REFUSED, 0.0, i.points, reason) for i in self.bench.items
        )
        return Verdict(self.bench.topic.key, label, Outcome.REFUSED, items, (reason,), self.zygote.sandboxed)

    def _fault(self, label: str, notes: list[str], error: Exception) -> Verdict:
        message = f"The grader stumbled ({type(error).__name__}: {str(error)[:200]}). A person will look at this."
        items = tuple(
            ItemVerdict(i.grade_id, i.title, Outcome.GRADER_FAULT, 0.0, i.points, message) for i in self.bench.items
        )
        outcome = Outcome.GRADER_FAULT
        return Verdict(self.bench.topic.key, label, outcome, items, (*notes, message), self.zygote.sandboxed)


def _called(result: Result) -> set[str]:
    return {what.split(".")[0] for what, _value in result.trace}


def file_hash(path: Path) -> str:
    """The hash that a submission is known by; of what can't be read, the hash of the reason."""
    try:
        data = bytes_of(path)
    except Refused as reason:
        data = str(reason).encode()
    return hashlib.sha256(data).hexdigest()[:24]


def course_digest(bench: Bench, secret: bytes) -> str:
    """Changes when anything does that a verdict depends on, besides the submission."""
    digest = hashlib.sha256(secret)
    package = Path(__file__).resolve().parent
    files = [bench.topic.text, bench.topic.hidden, bench.topic.slips, *sorted(package.rglob("*.py"))]
    for path in files:
        if path.exists():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


__all__ = ["MAX_BYTES", "Grader", "Refused", "course_secret", "parse_notebook", "read_submission", "source_notebook"]
