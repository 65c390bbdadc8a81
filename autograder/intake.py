"""What comes in -> work/submitted: folders and archives, each file accepted, repaired or refused by name and reason.

Everything that is graded passes here. What is written is a clean notebook and a time that intake itself saw; nothing
of a submission's metadata, outputs or other files is kept. The input is never changed.
"""

from __future__ import annotations

import json
import re
import stat
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import nbformat

from autograder.build import write_whole
from autograder.course import Course, Topic
from autograder.grade import MAX_BYTES, Refused, parse_notebook

MAX_FILES = 20_000
MAX_TOTAL = 2 << 30
MAX_RATIO = 200
NAME = re.compile(r"[\w.@+-]{1,64}")
COPY_MARK = re.compile(r"(\s*\(\d+\)|[-_ ]copy\d*|[-_ ]\d+)$", re.IGNORECASE)
# Canvas: name_LATE_12345_67890_file-1.ipynb; the last number counts resubmissions.
CANVAS = re.compile(r"^(?P<student>[a-z0-9.@+-]+?)_(?P<late>LATE_)?(?P<user>\d+)_(?P<upload>\d+)_(?P<file>.+)$")
# Moodle: a folder "First Last_12345_assignsubmission_file" (with or without the trailing underscore).
MOODLE = re.compile(r"^(?P<student>.+?)_(?P<user>\d+)_assignsubmission_file_?$")


@dataclass(frozen=True)
class Entry:
    """What became of one file. `verdict`: `accepted`, `repaired`, `refused` or `ignored`; notes say why."""

    file: str
    student: str
    topic: str
    verdict: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class IntakeReport:
    """One run of intake."""

    source: str
    entries: tuple[Entry, ...]

    def __str__(self) -> str:
        counts = {v: sum(e.verdict == v for e in self.entries) for v in ("accepted", "repaired", "refused", "ignored")}
        lines = [", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "nothing was found"]
        for entry in self.entries:
            if entry.verdict in ("repaired", "refused"):
                lines.append(f"{entry.verdict}: {entry.file}: {' '.join(entry.notes)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Incoming:
    """One file as it came: its path inside the source, when it was last changed, and a way to its bytes."""

    path: PurePosixPath
    when: datetime
    size: int
    problem: str
    data: bytes = b""


def intake(course: Course, source: Path) -> IntakeReport:
    """Take submissions in. Repeating it with the same input writes the same bytes. Never raises for a bad file."""
    best: dict[tuple[str, str], tuple[tuple, Incoming, str, list[str]]] = {}
    entries: list[Entry] = []
    for incoming in _files(source):
        student, file, order, notes = _who(incoming)
        topic, more = _which(course, incoming, file)
        name = str(incoming.path)
        if incoming.problem:
            entries.append(Entry(name, student, topic.key if topic else "", "refused", (incoming.problem,)))
        elif not file.lower().endswith(".ipynb"):
            entries.append(Entry(name, student, topic.key if topic else "", "ignored", ("not a notebook.",)))
        elif not NAME.fullmatch(student) or student.startswith((".", "-")):
            reason = f"the student's name {student[:80]!r} has characters that a folder should not have."
            entries.append(Entry(name, "", "", "refused", (reason,)))
        elif topic is None:
            known = ", ".join(t.notebook for t in course.topics())
            entries.append(
                Entry(name, student, "", "refused", (f"no topic has this notebook; expected one of: {known}.",))
            )
        else:
            key, rank = (student, topic.key), (order, incoming.when, name)
            if key in best and best[key][0] > rank:
                entries.append(Entry(name, student, topic.key, "ignored", ("a later submission counts.",)))
                continue
            if key in best:
                earlier = str(best[key][1].path)
                entries.append(Entry(earlier, student, topic.key, "ignored", ("a later submission counts.",)))
            best[key] = (rank, incoming, student, [*notes, *more])
    for (owner, topic_key), (_rank, incoming, _student, notes) in sorted(best.items()):
        entries.append(_take(course.topic(topic_key), owner, incoming, notes))
    report = IntakeReport(str(source), tuple(sorted(entries, key=lambda e: e.file)))
    _keep(course, report)
    return report


def _take(topic: Topic, student: str, incoming: Incoming, notes: list[str]) -> Entry:
    name = str(incoming.path)
    text, repairs = _text(incoming.data)
    try:
        notebook = parse_notebook(text, name)
    except Refused as error:
        return Entry(name, student, topic.key, "refused", (str(error),))
    repairs = [*notes, *repairs]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    _mend_ids(notebook)
    folder = topic.course.submitted / student / topic.key
    when = incoming.when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    write_whole(folder / "timestamp.txt", when + "\n")
    write_whole(folder / topic.notebook, json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return Entry(name, student, topic.key, "repaired" if repairs else "accepted", tuple(repairs))


def _text(data: bytes) -> tuple[str, list[str]]:
    repairs = []
    if data.startswith(b"\xef\xbb\xbf"):
        repairs.append("A byte order mark was removed.")
    if b"\r" in data:
        repairs.append("Line ends were made uniform.")
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return text, repairs


def _mend_ids(notebook: nbformat.NotebookNode) -> None:
    used: set[str] = set()
    for place, cell in enumerate(notebook.cells):
        if not re.fullmatch(r"[\w-]{1,64}", cell.get("id", ""), re.ASCII) or cell["id"] in used:
            cell["id"] = f"own-{place}"
        used.add(cell["id"])


def _keep(course: Course, report: IntakeReport) -> None:
    path = course.work / "intake" / "last.json"
    write_whole(path, json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n")


# -- whose file, and which topic ---------------------------------------------------------------------------------------


def _who(incoming: Incoming) -> tuple[str, str, int, list[str]]:
    """Student, file name, number of the resubmission, notes."""
    parts = incoming.path.parts
    file = parts[-1]
    moodle = next((m for part in parts[:-1] if (m := MOODLE.match(part))), None)
    if moodle:
        return _plain(moodle["student"]), file, 0, []
    canvas = CANVAS.match(file)
    if canvas:
        late = ["Handed in late, says the archive."] if canvas["late"] else []
        number = re.search(r"-(\d+)\.ipynb$", canvas["file"])
        return canvas["student"], canvas["file"], int(number[1]) if number else 0, late
    return (parts[0] if len(parts) > 1 else "", file, 0, [])


def _plain(name: str) -> str:
    text = unicodedata.normalize("NFKC", name).strip()
    return re.sub(r"\s+", "_", text)


def _which(course: Course, incoming: Incoming, file: str) -> tuple[Topic | None, list[str]]:
    topics = {t.name: t for t in course.topics()}
    stem = file[: -len(".ipynb")] if file.lower().endswith(".ipynb") else file
    plain = stem
    while (shorter := COPY_MARK.sub("", plain)) != plain and plain not in topics:
        plain = shorter
    plain = re.sub(r"^\d\d_", "", plain.strip().lower().replace(" ", "_").replace("-", "_"))
    topic = topics.get(plain)
    if topic is None:
        folder = [t for t in topics.values() if t.key in incoming.path.parts]
        topic = folder[0] if folder else None
    notes = [f"The file's name was put right: {file}."] if topic and stem != topic.name else []
    return topic, notes


# -- the source --------------------------------------------------------------------------------------------------------


def _files(source: Path) -> Iterator[Incoming]:
    if source.is_dir() and not source.is_symlink():
        yield from _folder(source)
    elif source.is_file() and zipfile.is_zipfile(source):
        yield from _archive(source)
    else:
        now = datetime.now(UTC)
        yield Incoming(PurePosixPath(source.name), now, 0, "expected a folder or a zip archive.")


def _folder(source: Path) -> Iterator[Incoming]:
    for number, path in enumerate(sorted(source.rglob("*"))):
        name = PurePosixPath(*path.relative_to(source).parts)
        if number > MAX_FILES:
            yield Incoming(name, datetime.now(UTC), 0, f"the folder holds more than {MAX_FILES} files.")
            return
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            continue
        when = datetime.fromtimestamp(int(status.st_mtime), UTC)
        problem = _problem(status.st_mode, status.st_nlink, status.st_size)
        data = b"" if problem or not path.name.lower().endswith(".ipynb") else path.read_bytes()
        yield Incoming(name, when, status.st_size, problem, data)


def _problem(mode: int, links: int, size: int) -> str:
    if stat.S_ISLNK(mode):
        return "it is a symbolic link; expected a file."
    if not stat.S_ISREG(mode):
        return "it is a pipe, a socket or a device; expected a file."
    if links > 1:
        return "it is a hard link to another file; expected a file of its own."
    return f"it has {size >> 20} MiB; a submission may have {MAX_BYTES >> 20}." if size > MAX_BYTES else ""


def _archive(source: Path) -> Iterator[Incoming]:
    total = 0
    with zipfile.ZipFile(source) as archive:
        for number, info in enumerate(archive.infolist()):
            name = PurePosixPath(info.filename.replace("\\", "/"))
            if info.is_dir():
                continue
            total += info.file_size
            problem = _archive_problem(info, name, number, total)
            data = b""
            if not problem and name.name.lower().endswith(".ipynb"):
                try:
                    with archive.open(info) as member:
                        data = member.read(MAX_BYTES + 1)
                except Exception as error:  # a broken or encrypted member is that member's problem alone
                    problem = f"it can't be unpacked ({type(error).__name__})."
                if len(data) > MAX_BYTES:
                    problem, data = f"it unpacks to more than {MAX_BYTES >> 20} MiB.", b""
            yield Incoming(name, _zip_time(info), info.file_size, problem, data)


def _archive_problem(info: zipfile.ZipInfo, name: PurePosixPath, number: int, total: int) -> str:
    if name.is_absolute() or ".." in name.parts or ":" in info.filename or "\0" in info.filename:
        return "its path climbs out of the archive."
    if stat.S_ISLNK(info.external_attr >> 16):
        return "it is a symbolic link; expected a file."
    if number > MAX_FILES or total > MAX_TOTAL:
        return f"the archive holds more than {MAX_FILES} files or {MAX_TOTAL >> 30} GiB."
    if info.file_size > MAX_BYTES:
        return f"it has {info.file_size >> 20} MiB; a submission may have {MAX_BYTES >> 20}."
    if info.file_size > 1 << 20 and info.file_size > MAX_RATIO * max(1, info.compress_size):
        return f"it unpacks to more than {MAX_RATIO} times its size."
    return ""


def _zip_time(info: zipfile.ZipInfo) -> datetime:
    try:
        return datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        return datetime(1980, 1, 1, tzinfo=UTC)
