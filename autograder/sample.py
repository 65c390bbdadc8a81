"""Makes submissions from answers: a `.py` with some of the topic's names, put into the exercise's answer cells.

The sample class of `make course` and the tests are made this way, so that they hand in real notebooks.
"""

from __future__ import annotations

import ast
import copy
import json
from pathlib import Path

from nbformat import NotebookNode

from autograder.build import write_notebook
from autograder.course import Course, Topic
from autograder.grade import read_submission
from autograder.restore import role_of


def fill(exercise: NotebookNode, answers: str) -> NotebookNode:
    """The exercise with the answers in its cells. What is no answer's name goes in front of the first answer."""
    notebook = copy.deepcopy(exercise)
    cells = [cell for cell in notebook.cells if role_of(cell) == "answer" and cell.cell_type == "code"]
    try:
        body = ast.parse(answers).body
    except SyntaxError:
        cells[0].source = answers
        return notebook
    wanted = {name: cell for cell in cells for name in _names(cell.source)}
    parts: dict[int, list[str]] = {}
    for node in body:
        cell = wanted.get(getattr(node, "name", ""), cells[0])
        parts.setdefault(id(cell), []).append(ast.get_source_segment(answers, node) or "")
    for cell in cells:
        if id(cell) in parts:
            cell.source = "\n\n\n".join(parts[id(cell)]) + "\n"
    return notebook


def _names(source: str) -> list[str]:
    return [n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]


def sample_answers(course: Course, topic: Topic) -> dict[str, Path]:
    """The answers of the sample class, by student."""
    return {path.stem: path for path in sorted((course.sample_class / topic.key).glob("*.py"))}


def expected_outcomes(course: Course, topic: Topic) -> dict[str, dict]:
    """What each of the sample class must get: outcome, score, and the mistake that is named."""
    return json.loads((course.sample_class / topic.key / "expected.json").read_text(encoding="utf-8"))


def write_inbox(course: Course, inbox: Path) -> list[Path]:
    """Write the sample class's notebooks as INBOX/<student>/<topic>.ipynb."""
    written = []
    for topic in course.topics():
        if not (course.sample_class / topic.key).is_dir():
            continue
        exercise = _with_metadata(topic.exercise)
        for student, path in sample_answers(course, topic).items():
            target = inbox / student / topic.notebook
            write_notebook(target, fill(exercise, path.read_text(encoding="utf-8")))
            written.append(target)
    return written


def _with_metadata(path: Path) -> NotebookNode:
    notebook = read_submission(path)
    raw = json.loads(path.read_text(encoding="utf-8"))
    for cell, original in zip(notebook.cells, raw["cells"], strict=True):
        cell.metadata = NotebookNode(original["metadata"])
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader = NotebookNode(cell.metadata.nbgrader)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook
