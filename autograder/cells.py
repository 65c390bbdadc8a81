"""Reads `topic.py`: the cells of an exercise as text, and the reference that its solution regions make.

Cell markers, in py:percent: `setup="imports"` (locked), `given="name"` (locked code that the learner may call),
`answer="grade_id"` (what the learner writes, with its solution region), `check="grade_id"` (visible checks, locked,
scored by the hidden tests with that id), and on a Markdown cell `written="grade_id" points=N` (graded by hand).
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat

KINDS = ("setup", "given", "answer", "check", "written")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


class TopicError(Exception):
    """A topic's text breaks a rule of its format; the message names the cell and the rule."""


@dataclass(frozen=True)
class Cell:
    """One cell: its type (`code` or `markdown`), kind (one of KINDS, or `free`), name and text."""

    type: str
    kind: str
    name: str
    source: str
    points: float = 0.0


def read_cells(path: Path) -> tuple[list[Cell], dict[str, Any]]:
    """The cells of a topic and its header's `course` entry (title, minutes).

    Raises TopicError for a cell with two kinds, an answer without a solution region, or a name used twice.
    """
    notebook = jupytext.read(path, fmt="py:percent")
    cells = [_cell(raw, path) for raw in notebook.cells]
    names = [(cell.kind, cell.name) for cell in cells if cell.kind in ("answer", "check", "written", "given")]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise TopicError(f"{path}: used twice: {sorted(twice)}")
    return cells, dict(notebook.metadata.get("course", {}))


def _cell(raw: nbformat.NotebookNode, path: Path) -> Cell:
    kinds = [kind for kind in KINDS if kind in raw.metadata]
    if len(kinds) > 1:
        raise TopicError(f"{path}: a cell is both {kinds[0]} and {kinds[1]}")
    kind = kinds[0] if kinds else "free"
    name = str(raw.metadata.get(kind) or kind) if kinds else ""
    if kind == "answer" and not (raw.source.count(BEGIN) == raw.source.count(END) >= 1):
        raise TopicError(f"{path}: the answer {name!r} needs {BEGIN} and {END}, each as often as the other")
    if kind != "answer" and kind != "written" and BEGIN in raw.source:
        raise TopicError(f"{path}: a solution region stands outside an answer cell ({kind} {name})")
    return Cell(raw.cell_type, kind, name, raw.source, float(raw.metadata.get("points", 0)))


def reference_source(path: Path) -> str:
    """The program that grades: setup, given and answer cells, in order."""
    cells, _ = read_cells(path)
    return "\n\n".join(c.source for c in cells if c.type == "code" and c.kind in ("setup", "given", "answer")) + "\n"


def answer_names(path: Path) -> tuple[str, ...]:
    """The functions and classes that the learner writes."""
    cells, _ = read_cells(path)
    names: list[str] = []
    for cell in cells:
        if cell.kind == "answer" and cell.type == "code":
            names += [
                node.name for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)
            ]
    return tuple(dict.fromkeys(names))


def run_source(source: str, label: str) -> dict[str, Any]:
    """Execute trusted source; its lines are kept so that an error can show them. Returns the namespace."""
    filename = f"<course {label}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": f"course.{label}"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace
