"""Folder names and topics. The only module that knows them; `nbgrader_config.py` reads them from here."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MARKER = "nbgrader_config.py"


class CourseError(Exception):
    """The course folder is not as it should be; the message says what was expected and what to do."""


@dataclass(frozen=True)
class Course:
    """One course folder."""

    root: Path

    @property
    def book(self) -> Path:
        return self.root / "book"

    @property
    def solutions(self) -> Path:
        return self.root / "solutions"

    @property
    def exercises(self) -> Path:
        return self.root / "exercises"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def source(self) -> Path:
        return self.work / "source"

    @property
    def submitted(self) -> Path:
        return self.work / "submitted"

    @property
    def verdicts(self) -> Path:
        return self.work / "verdicts"

    @property
    def autograded(self) -> Path:
        return self.work / "autograded"

    @property
    def feedback(self) -> Path:
        return self.work / "feedback"

    @property
    def reports(self) -> Path:
        return self.work / "reports"

    @property
    def gradebook(self) -> Path:
        return self.work / "gradebook.db"

    @property
    def secret(self) -> Path:
        return self.work / "secret"

    @property
    def sample_class(self) -> Path:
        return self.root / "tests" / "submissions"

    @property
    def site(self) -> str:
        """Where the book is published, as `_config.yml` says it; empty when it does not."""
        config = self.root / "_config.yml"
        found = (
            re.search(r"^\s+baseurl:\s*(\S+)", config.read_text(encoding="utf-8"), re.M) if config.exists() else None
        )
        return found[1].rstrip("/") if found else ""

    def topics(self) -> list[Topic]:
        keys = sorted(p.parent.name for p in self.solutions.glob("*/hidden.py"))
        return [Topic(self, key) for key in keys]

    def topic(self, key: str) -> Topic:
        known = {topic.key: topic for topic in self.topics()}
        if key not in known:
            raise CourseError(f"unknown topic {key!r}; expected one of: {', '.join(known)}")
        return known[key]


@dataclass(frozen=True)
class Topic:
    """One topic, `NN_name`: the same key for chapter, solution, exercise and gradebook."""

    course: Course
    key: str

    @property
    def name(self) -> str:
        return self.key.split("_", 1)[1]

    @property
    def notebook(self) -> str:
        return f"{self.name}.ipynb"

    @property
    def folder(self) -> Path:
        return self.course.solutions / self.key

    @property
    def text(self) -> Path:
        return self.folder / "topic.py"

    @property
    def hidden(self) -> Path:
        return self.folder / "hidden.py"

    @property
    def slips(self) -> Path:
        return self.folder / "slips.py"

    @property
    def variants(self) -> Path:
        return self.folder / "variants.py"

    @property
    def chapter(self) -> str:
        """Address of the topic's chapter; empty when the book has none."""
        return self.course.site and f"{self.course.site}/{self.key}.html"

    @property
    def source(self) -> Path:
        return self.course.source / self.key / self.notebook

    @property
    def exercise(self) -> Path:
        return self.course.exercises / self.key / self.notebook


def find_course(start: Path | None = None) -> Course:
    """The course that contains `start` (default: the working folder), else the one this package stands in.

    The environment variable ATTENTION_COURSE names another. Raises CourseError when there is none.
    """
    named = os.environ.get("ATTENTION_COURSE")
    beginnings = [Path(named)] if named else [start or Path.cwd(), Path(__file__).resolve().parent]
    for beginning in beginnings:
        for folder in [beginning.resolve(), *beginning.resolve().parents]:
            if (folder / MARKER).is_file() and (folder / "solutions").is_dir():
                return Course(folder)
    raise CourseError(f"no course found at {beginnings[0]}; expected a folder with {MARKER} and solutions/")
