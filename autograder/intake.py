"""What comes in -> work/submitted: folders and archives, each file accepted, repaired or refused by name and reason.

Everything that is graded passes here. What is written is a clean notebook and a time that intake itself saw; nothing
of a submission's metadata, outputs or other files is kept. The input is never changed.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat

from autograder.build import write_whole
from autograder.codec import readable
from autograder.course import Course, CourseError, Topic
from autograder.intake_archive import Incoming, files_of, is_notebook
from autograder.intake_names import Owner, bad_student, is_junk, owner_of, topic_of
from autograder.reading import Refused, parse_with_repairs, text_of

VERDICTS = ("accepted", "repaired", "refused", "ignored")
ROUTINE = "Outputs were dropped"


@dataclass(frozen=True)
class Entry:
    """What became of one file. `verdict` is one of VERDICTS; notes say why."""

    file: str
    student: str
    topic: str
    verdict: str
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        return " ".join(self.notes)


@dataclass(frozen=True)
class IntakeReport:
    """One run of intake."""

    source: str
    entries: tuple[Entry, ...]

    def of(self, verdict: str) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.verdict == verdict)

    def __str__(self) -> str:
        counts = [f"{len(self.of(verdict))} {verdict}" for verdict in VERDICTS if self.of(verdict)]
        lines = [", ".join(counts) or "nothing was found"]
        for verdict in ("refused", "repaired"):
            lines += [f"{verdict}: {entry.file}: {entry.reason}" for entry in self.of(verdict)]
        return "\n".join(lines)


@dataclass
class _Run:
    """What one run has found so far."""

    course: Course
    entries: list[Entry] = field(default_factory=list)
    best: dict[tuple[str, str], tuple[tuple, Incoming, Owner, tuple[str, ...]]] = field(default_factory=dict)
    people: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def add(self, incoming: Incoming, student: str, topic: str, verdict: str, *notes: str) -> None:
        self.entries.append(Entry(readable(str(incoming.path), 300), student, topic, verdict, notes))


def intake(course: Course, source: Path) -> IntakeReport:
    """Take submissions in. Repeating it with the same input writes the same bytes. Never raises for a bad file.

    Raises CourseError when the course's own folder can't be written.
    """
    run = _Run(course)
    topics = course.topics()
    try:
        with _alone(course):
            known = _known_people(course)
            for incoming in files_of(source):
                _sort_in(run, topics, incoming)
            for (student, key), (_rank, incoming, owner, notes) in sorted(run.best.items(), key=lambda item: item[0]):
                _take(run, course.topic(key), student, incoming, owner, notes, known)
            report = IntakeReport(str(source), tuple(sorted(run.entries, key=lambda e: (e.file, e.verdict, e.notes))))
            _keep(course, report, known)
    except OSError as error:
        raise CourseError(
            f"{error.filename or course.work}: can't be written ({error.strerror}). What was taken in is whole; make "
            "room or give the right to write, and run intake again."
        ) from None
    return report


def _sort_in(run: _Run, topics: list[Topic], incoming: Incoming) -> None:
    """Refuse or ignore a file, or make it a candidate for its student and topic."""
    if is_junk(incoming.path):
        return
    owner = owner_of(incoming.path)
    topic, renamed = topic_of(topics, incoming.path, owner.file)
    key = topic.key if topic else ""
    reason = incoming.problem or ("" if not is_notebook(incoming.path) else bad_student(owner.student))
    student = "" if bad_student(owner.student) else owner.student
    if reason:
        run.add(incoming, student, key, "refused", reason)
    elif not is_notebook(incoming.path):
        run.add(incoming, student, key, "ignored", "it is not a notebook.")
    elif topic is None:
        known = ", ".join(t.notebook for t in topics)
        run.add(incoming, student, "", "refused", f"no topic has this notebook; expected one of: {known}.")
    else:
        _compete(run, topic, incoming, owner, renamed)


def _compete(run: _Run, topic: Topic, incoming: Incoming, owner: Owner, renamed: tuple[str, ...]) -> None:
    key = (owner.student, topic.key)
    run.people.setdefault(key, set()).add(owner.person)
    rank = (owner.order, incoming.when, owner.copies, str(incoming.path))
    candidate = (rank, incoming, owner, (*owner.notes, *renamed))
    if key in run.best:
        candidate, loser = sorted((candidate, run.best[key]), key=lambda c: c[0], reverse=True)
        run.add(loser[1], owner.student, topic.key, "ignored", "a later submission counts.")
    run.best[key] = candidate


def _take(
    run: _Run, topic: Topic, student: str, incoming: Incoming, owner: Owner, notes: tuple[str, ...], known: dict
) -> None:
    folder = topic.course.submitted / student / topic.key
    earlier = " The submission taken in before still counts." if (folder / topic.notebook).exists() else ""
    reason = _two_people(run, topic, student, owner, known)
    if reason:
        run.add(incoming, student, topic.key, "refused", reason + earlier)
        return
    text = text_of(incoming.data)
    try:
        notebook, repairs = parse_with_repairs(text.text, owner.file)
    except Refused as error:
        run.add(incoming, student, topic.key, "refused", str(error) + earlier)
        return
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    _mend_ids(notebook)
    when = incoming.when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    notes = (*notes, *text.repairs, *repairs)
    write_whole(folder / "timestamp.txt", when + "\n")
    write_whole(folder / topic.notebook, json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    routine = all(note.startswith(ROUTINE) for note in notes)
    if incoming.when > datetime.now(UTC):
        notes = (*notes, f"Its time, {when}, lies in the future.")
    run.add(incoming, student, topic.key, "accepted" if routine else "repaired", *notes)


def _two_people(run: _Run, topic: Topic, student: str, owner: Owner, known: dict) -> str:
    """Why a submission can't be told to be one person's; empty when it can."""
    system = owner.person.split(" ")[0]
    # Canvas numbers people; Moodle numbers them anew in each assignment.
    place = f"{student} {system}" if system == "canvas" else f"{student} {system} {topic.key}"
    here = run.people[student, topic.key] - {""}
    folders = {person for person in here if person.startswith("folder ")}
    if max(len(folders), len(here - folders)) > 1 or known.setdefault(place, owner.person) != owner.person:
        return (
            f"two people have the name {student}. Put their notebooks into folders of their own, STUDENT/TOPIC.ipynb, "
            "and take those in."
        )
    return ""


def _mend_ids(notebook: nbformat.NotebookNode) -> None:
    used: set[str] = set()
    for place, cell in enumerate(notebook.cells):
        if not re.fullmatch(r"[\w-]{1,64}", cell.get("id", ""), re.ASCII) or cell["id"] in used:
            cell["id"] = f"own-{place}"
        while cell["id"] in used:
            cell["id"] += "-"
        used.add(cell["id"])


# -- what is kept for the report and for the learner -------------------------------------------------------------------


def _folder(course: Course) -> Path:
    return course.work / "intake"


@contextmanager
def _alone(course: Course) -> Iterator[None]:
    """One intake at a time."""
    _folder(course).mkdir(parents=True, exist_ok=True)
    with (_folder(course) / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _known_people(course: Course) -> dict[str, str]:
    return {str(k): str(v) for k, v in _read(_folder(course) / "people.json").items()}


def _keep(course: Course, report: IntakeReport, people: dict[str, str]) -> None:
    """`last.json`: the last run. `submissions.json`: for each topic and student, what became of the latest file."""
    folder = _folder(course)
    latest = _read(folder / "submissions.json")
    for entry in report.entries:
        if entry.student and entry.topic and entry.verdict != "ignored":
            latest[f"{entry.topic}/{entry.student}"] = asdict(entry)
    for name, value in (("people", people), ("submissions", latest), ("last", asdict(report))):
        write_whole(folder / f"{name}.json", json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def arrivals(course: Course) -> dict[tuple[str, str], Entry]:
    """What became of the latest file, by topic key and student: for the learner's feedback and the report."""
    found: dict[tuple[str, str], Entry] = {}
    for name, value in sorted(_read(_folder(course) / "submissions.json").items()):
        key, _, student = name.partition("/")
        with suppress(KeyError, TypeError):
            found[key, student] = Entry(**{**value, "notes": tuple(value["notes"])})
    return found
