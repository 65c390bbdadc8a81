"""Source -> exercise, through nbgrader's own generate_assignment; and the proof that nothing hidden is left in it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import nbformat
from nbgrader.converters import GenerateAssignment

from autograder.build import build, write_notebook
from autograder.cells import BEGIN, END, read_cells
from autograder.course import Course, Topic

DISTINCTIVE = 24


class Leak(Exception):
    """Something hidden stands in a file that learners get; the message says what and where."""


def release(topic: Topic) -> Path:
    """Build the source notebook and write the exercise. Raises Leak, and then leaves no exercise behind."""
    from autograder.record import course_directory

    build(topic)
    directory, config = course_directory(topic.course)
    directory.assignment_id = topic.key
    converter = GenerateAssignment(coursedir=directory, config=config)
    converter.log = logging.getLogger("autograder.nbgrader")
    converter.log.setLevel(logging.ERROR)
    converter.force = True
    converter.start()
    write_notebook(topic.exercise, _normal(topic))
    found = leaks(topic, topic.exercise.read_text(encoding="utf-8"))
    if found:
        topic.exercise.unlink()
        raise Leak(f"{topic.exercise}: hidden text was left: {found[:3]}")
    return topic.exercise


def _normal(topic: Topic) -> nbformat.NotebookNode:
    notebook = nbformat.read(topic.exercise, as_version=4)
    notebook.metadata.pop("celltoolbar", None)
    return notebook


def hidden_lines(topic: Topic) -> set[str]:
    """Lines that no learner's file may hold: of solution regions, hidden tests, known mistakes and right answers."""
    cells, _header = read_cells(topic.text)
    public: set[str] = set()
    hidden: set[str] = set()
    for cell in cells:
        inside = False
        for line in cell.source.splitlines():
            if line.strip() in (BEGIN, END):
                inside = line.strip() == BEGIN
            else:
                (hidden if inside else public).add(line.strip())
    for path in (topic.hidden, topic.slips, topic.variants):
        if path.exists():
            hidden |= {line.strip() for line in path.read_text(encoding="utf-8").splitlines()}
    return {line for line in hidden - public if len(line) >= DISTINCTIVE and not line.startswith(("import ", "from "))}


def leaks(topic: Topic, text: str) -> list[str]:
    """The hidden lines that stand in a text (a notebook's JSON, a page)."""
    try:
        cells = json.loads(text).get("cells", [])
        lines = {line.strip() for c in cells for line in "".join(c.get("source", "")).splitlines()}
    except (json.JSONDecodeError, AttributeError):
        lines = {line.strip() for line in text.splitlines()}
    found = sorted(hidden_lines(topic) & lines)
    if BEGIN in text:
        found.append(BEGIN)
    return found


def public_leaks(course: Course) -> list[str]:
    """Hidden text in any file that learners get: `file: line`."""
    found = []
    files = [*course.exercises.rglob("*"), *course.book.rglob("*.md")]
    for path in files:
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            own = [topic for topic in course.topics() if path.suffix != ".ipynb" or topic.key in path.parts]
            for topic in own:
                found += [f"{path.relative_to(course.root)}: {line}" for line in leaks(topic, text)]
    return found
