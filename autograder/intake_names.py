"""Whose file it is, and for which topic: read from paths as instructors, Canvas and Moodle make them.

A learner chooses the end of a path and never its beginning, so only the beginning says whose file it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from autograder.codec import readable
from autograder.course import Topic

SUFFIX = ".ipynb"
JOINERS = "\u200c\u200d"  # invisible, but part of the spelling in several scripts
MAX_STUDENT_BYTES = 200
RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{n}{i}" for n in ("com", "lpt") for i in range(1, 10))})
# Canvas: doejane_LATE_12345_67890_topic-1.ipynb: name, late mark, user, upload, file; -1 counts resubmissions.
CANVAS = re.compile(r"(?P<student>[^_/]{1,80})_(?P<late>LATE_)?(?P<user>\d{1,20})_(?P<upload>\d{1,20})_(?P<file>.+)")
# Moodle: a folder "Jane Doe_12345_assignsubmission_file_" (the last underscore may be missing), or the same before the
# file's own name; with a late or an attempt mark from some versions.
_MARK = r"_(?P<user>\d{1,20})_(?P<late>late_)?(?:attempt(?P<attempt>\d{1,4})_)?assignsubmission_(?:file|onlinetext)"
MOODLE_MARK = re.compile(_MARK, re.IGNORECASE)
# A learner's name may hold a mark, too: in a folder's name the last one is Moodle's.
MOODLE_FOLDER = re.compile(rf"(?P<student>.{{1,120}}){_MARK}_?", re.IGNORECASE)
MOODLE_FILE = re.compile(rf"(?P<student>.{{1,120}}?){_MARK}(?:_(?P<file>.*))?", re.IGNORECASE)
COPY_MARK = re.compile(r"(?:[\s_-]*\((\d{1,4})\)|[\s_-]+copy\s*(\d{0,4})|[\s_-]+(\d{1,4}))$", re.IGNORECASE)
JUNK = ("__macosx", ".ipynb_checkpoints", "__pycache__")


@dataclass(frozen=True)
class Owner:
    """Whose file: `person` tells people of one name apart, `order` tells the later of two submissions."""

    student: str
    file: str
    person: str = ""
    order: int = 0
    copies: int = 0
    notes: tuple[str, ...] = ()


def owner_of(path: PurePosixPath) -> Owner:
    """Read from a path inside a folder or an archive. The student is empty where the path names none."""
    if not path.parts:
        return Owner("", "")
    first, file = path.parts[0], path.parts[-1]
    alone = len(path.parts) == 1
    if alone and len(MOODLE_MARK.findall(first)) > 1:
        return Owner("", file)  # the name of the learner and the name of the file can't be told apart
    moodle = (MOODLE_FILE if alone else MOODLE_FOLDER).fullmatch(first)
    if moodle:
        own = moodle["file"] if alone else file
        late = ("Handed in late, says the archive.",) if moodle["late"] else ()
        order = int(moodle["attempt"] or 0)
        return Owner(_plain(moodle["student"]), own or "", f"moodle {moodle['user']}", order, _copies(own or ""), late)
    if not alone:
        return Owner(_plain(first), file, f"folder {first}", copies=_copies(file))
    canvas = CANVAS.fullmatch(first)
    if canvas:
        late = ("Handed in late, says the archive.",) if canvas["late"] else ()
        order = int(canvas["upload"])
        own = canvas["file"]
        return Owner(_plain(canvas["student"]), own, f"canvas {canvas['user']}", order, _copies(own), late)
    return Owner("", file)


def _plain(name: str) -> str:
    """A display name as the name of a folder: O'Brien, Ann (Physics) becomes OBrien_Ann_Physics."""
    return re.sub(r"\s+", "_", re.sub(rf"['’‘ʼ`´,(){JOINERS}]", "", unicodedata.normalize("NFKC", name)).strip())


def _is_name(text: str) -> bool:
    """Letters and digits, the marks that several scripts write vowels with, and a few signs, not the first."""
    own = (c.isalnum() or c in "_.@+-" or unicodedata.category(c).startswith("M") for c in text)
    return 0 < len(text) <= 64 and (text[0].isalnum() or text[0] == "_") and all(own)


def _copies(file: str) -> int:
    mark = COPY_MARK.search(PurePosixPath(file).stem)
    return int(next((part for part in mark.groups() if part), "1")) if mark else 0


def bad_student(student: str) -> str:
    """Why a name can't be a folder of a student; empty when it can."""
    if not student:
        return (
            "it does not say whose it is. Expected STUDENT/TOPIC.ipynb, STUDENT/TOPIC/FILE.ipynb, or the names that "
            "Canvas and Moodle give."
        )
    # Other files are named after the student, with a few more characters than the folder.
    too_long = len(student.encode("utf-8", "replace")) > MAX_STUDENT_BYTES
    odd = too_long or not _is_name(student) or student.endswith(".")
    if odd or student.split(".")[0].lower() in RESERVED:
        return (
            f"the student's name {readable(student, 80)!r} can't be a folder. Expected at most 64 letters, digits and "
            f"._@+- ({MAX_STUDENT_BYTES} bytes), with a letter or a digit first."
        )
    return ""


def bad_path(text: str) -> str:
    """Why no file system should see such a path; empty when it may."""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", text):
        return "its path climbs out of the archive."
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in JOINERS for c in text):
        return "its name holds control or invisible characters."
    if len(text.encode("utf-8", "replace")) > 1_000 or any(len(p.encode("utf-8", "replace")) > 255 for p in path.parts):
        return "its name is longer than a file's name may be."
    if any(p.rstrip(" .") != p or p.split(".")[0].lower() in RESERVED for p in path.parts):
        return "its name is one that some systems can't store."
    return "" if path.parts else "it has no name."


def is_junk(path: PurePosixPath) -> bool:
    """What systems and Jupyter put beside files: never a submission."""
    return any(part.lower() in JUNK or part.startswith("._") for part in path.parts) or path.name.startswith(".")


def topic_of(topics: Iterable[Topic], path: PurePosixPath, file: str) -> tuple[Topic | None, tuple[str, ...]]:
    """The topic that a path is for, and a note when the file's name was not quite that of the exercise.

    A folder with a topic's name counts before the file's own name.
    """
    known = {name: topic for topic in topics for name in (topic.name, topic.key)}
    folders = [known[_folded(part)] for part in path.parts[:-1] if _folded(part) in known]
    topic = folders[-1] if folders else known.get(_topic_name(file, known))
    put_right = topic is not None and file != topic.notebook
    return topic, (f"The file's name was put right: {readable(file, 120)}.",) if put_right else ()


def _topic_name(file: str, known: dict[str, Topic]) -> str:
    name = _folded(file[: -len(SUFFIX)] if file.lower().endswith(SUFFIX) else file)
    while name not in known and (shorter := COPY_MARK.sub("", name)) != name:
        name = _folded(shorter)
    return name if name in known else re.sub(r"^\d\d_", "", name)


def _folded(name: str) -> str:
    return re.sub(r"[\s-]+", "_", unicodedata.normalize("NFKC", name).strip().lower())
