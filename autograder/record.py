"""Verdicts -> nbgrader's gradebook: the classes that `nbgrader_config.py` puts into nbgrader's own lists.

`nbgrader autograde` and `autograder grade` both come through here. Scores are taken from verdicts alone; no output,
tag or metadata of a submission is looked at. One process records.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties, NbGraderPreprocessor
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from autograder.build import write_whole
from autograder.course import Course, Topic, find_course
from autograder.grade import Refused, read_submission
from autograder.grading import verdict_of
from autograder.restore import restore, role_of
from autograder.verdict import Outcome, Verdict

DATABASE_WAIT_S = 60
STUB = {"python": "raise NotImplementedError('This step is not written yet: put your code here.')"}


def nbgrader_settings(course: Course) -> dict[str, dict[str, Any]]:
    """What nbgrader has to be told, by section."""

    def relative(folder: Path) -> str:
        return str(folder.relative_to(course.root))

    return {
        "CourseDirectory": {
            "course_id": "attention",
            # Of a submission nbgrader copies nothing but the time: a link would be followed.
            "ignore": all_names_but("timestamp.txt", *(topic.key for topic in course.topics())),
            "root": str(course.root),
            "source_directory": relative(course.source),
            "release_directory": relative(course.exercises),
            "submitted_directory": relative(course.submitted),
            "autograded_directory": relative(course.autograded),
            "feedback_directory": relative(course.feedback),
            "db_url": os.environ.get("ATTENTION_DB_URL", f"sqlite:///{course.gradebook}?timeout={DATABASE_WAIT_S}"),
        },
        "ClearSolutions": {"code_stub": STUB},
        "Autograde": {
            "exporter_class": "autograder.record.SubmissionExporter",
            "sanitize_preprocessors": ["autograder.record.RestoreSubmission"],
            "autograde_preprocessors": ["autograder.record.SaveVerdict", "nbgrader.preprocessors.AssignLatePenalties"],
        },
    }


def course_directory(course: Course) -> tuple[CourseDirectory, Config]:
    """nbgrader's own view of the course, for calls of its Python interface."""
    scripts = str(Path(sys.executable).parent)
    if scripts not in os.environ.get("PATH", "").split(os.pathsep):
        # nbgrader runs `alembic` by name when it makes a database.
        os.environ["PATH"] = scripts + os.pathsep + os.environ.get("PATH", "")
    course.work.mkdir(parents=True, exist_ok=True)
    config = Config(nbgrader_settings(course))
    return CourseDirectory(config=config), config


# -- what runs inside `nbgrader autograde` -----------------------------------------------------------------------------


class SubmissionExporter(NotebookExporter):
    """Reads what learners hand in; a file that can't be read becomes an empty notebook that says so."""

    def from_filename(self, filename: str, resources: dict | None = None, **kwargs: Any) -> Any:
        path = Path(filename)
        try:
            notebook = read_submission(path)
        except Refused as error:
            notebook = NotebookNode(cells=[], metadata={}, nbformat=4, nbformat_minor=5)
            self.log.warning("%s", error)
        self.filename = filename
        return self.from_notebook_node(notebook, resources=resources, **kwargs)


class RestoreSubmission(NbGraderPreprocessor):
    """Puts locked cells, points, flags and ids back, and turns learner text into text."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        restored, _notes = restore(nb, _bench(resources).notebook)
        for cell in restored.cells:
            if cell.cell_type != "code" and role_of(cell) in ("free", "written"):
                cell.cell_type = "markdown"
                cell.source = as_text(cell.source)
        return restored, resources


class SaveVerdict(NbGraderPreprocessor):
    """Takes the verdict, writes it under the grade cells for people to read, and its scores into the gradebook."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        names = resources["nbgrader"]
        bench = _bench(resources)
        nb, _notes = restore(nb, bench.notebook)
        verdict = verdict_of(bench.topic, names["student"])
        for cell in nb.cells:
            if role_of(cell) == "check":
                text = "\n".join(_lines(verdict, cell.metadata.nbgrader.grade_id))
                cell.outputs = [NotebookNode(output_type="stream", name="stdout", text=text)]
        with Gradebook(names["db_url"]) as gradebook:
            save_scores(gradebook, bench.topic, names["student"], verdict)
        write_whole(recorded_mark(bench.topic, names["student"]), verdict.key + "\n")
        return nb, resources


def save_scores(gradebook: Gradebook, topic: Topic, student: str, verdict: Verdict) -> None:
    """Replace every score of the submission, in one commit.

    A person's own scores stay while the submission is the same file, and are dropped when another was handed in.
    """
    mark = recorded_mark(topic, student)
    before = mark.read_text().strip() if mark.exists() else ""
    same_file = before.split("-")[0] == verdict.key.split("-")[0]
    fault = verdict.outcome is Outcome.GRADER_FAULT
    graded = {item.grade_id for item in verdict.items}
    for grade in gradebook.find_submission_notebook(topic.name, topic.key, student).grades:
        if not same_file:
            grade.manual_score = grade.extra_credit = None
        if grade.name in graded:
            grade.auto_score = None if fault else min(max(verdict.cell_score(grade.name), 0.0), grade.max_score)
        else:
            grade.auto_score = None
        by_hand = grade.auto_score is None and grade.manual_score is None
        grade.needs_manual_grade = bool(by_hand and verdict.outcome is not Outcome.REFUSED)
    gradebook.db.commit()


def recorded_mark(topic: Topic, student: str) -> Path:
    """The file that says which verdict the gradebook holds."""
    return topic.course.verdicts / topic.key / f"{student}.recorded"


def all_names_but(*kept: str) -> list[str]:
    """Glob patterns that together match every file name but these."""
    prefixes = {name[:end] for name in kept for end in range(len(name) + 1)}
    patterns = [".*"]
    for prefix in sorted(prefixes):
        following = "".join(sorted({name[len(prefix)] for name in kept if name.startswith(prefix) and name != prefix}))
        patterns.append(f"{prefix}[!{following}]*" if following else f"{prefix}?*")
        if prefix and prefix not in kept:
            patterns.append(prefix)
    return patterns


def as_text(text: str) -> str:
    """Markdown that shows a learner's text as text: no HTML, script, link or formula in it takes effect."""
    fence = "`" * max(3, 1 + max((len(run) for run in _runs(text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def _runs(text: str) -> list[str]:
    runs, current = [], ""
    for character in text + " ":
        if character == "`":
            current += character
        elif current:
            runs.append(current)
            current = ""
    return runs


def _lines(verdict: Verdict, grade_id: str) -> list[str]:
    lines = []
    for item in verdict.items:
        if item.grade_id == grade_id:
            lines.append(f"{item.points:g}/{item.max_points:g}  {item.outcome}  {item.title}")
            if item.message:
                lines.append(f"         {printable(item.message)}")
    return lines


def printable(text: str) -> str:
    """Text without control characters, ANSI sequences included."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def _bench(resources: dict) -> Any:
    from autograder.grading import bench_of

    return bench_of(find_course().topic(resources["nbgrader"]["assignment"]))


# -- called by `autograder grade` --------------------------------------------------------------------------------------


def record(topic: Topic, student: str, verdict: Verdict) -> bool:
    """Bring the gradebook up to date with a verdict, through nbgrader's own autograde; False if it was already."""
    mark = recorded_mark(topic, student)
    folder = topic.course.autograded / student / topic.key
    if mark.exists() and mark.read_text().strip() == verdict.key and (folder / topic.notebook).exists():
        return False
    directory, config = course_directory(topic.course)
    directory.assignment_id, directory.student_id = topic.key, student
    converter = Autograde(coursedir=directory, config=config)
    converter.log = logging.getLogger("autograder.nbgrader")
    converter.log.setLevel(logging.ERROR)
    converter.force = True
    with warnings.catch_warnings():
        # nbgrader adds new rows in an order that SQLAlchemy 2.1 warns about; they are added all the same.
        warnings.simplefilter("ignore", SAWarning)
        converter.start()
    return True


__all__ = ["AssignLatePenalties", "RestoreSubmission", "SaveVerdict", "SubmissionExporter", "nbgrader_settings"]
