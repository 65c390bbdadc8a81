"""Puts a submission back into the form of its exercise: locked cells, points, flags and ids come from the source.

The learner's own code stays, in the learner's order. Nothing of a submission's metadata or outputs survives.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable

import nbformat
from nbformat import NotebookNode

LOCKED = ("setup", "given", "check")
DEFINITION = re.compile(r"^(def|class)\s", re.MULTILINE)


def role_of(cell: NotebookNode) -> str:
    """`setup`, `given`, `check`, `answer`, `written` or `free`, from the metadata that `build` wrote."""
    entry = cell.metadata.get("nbgrader", {})
    if not entry:
        return "free"
    if entry.get("grade"):
        return "written" if entry.get("solution") else "check"
    if entry.get("solution"):
        return "answer"
    return "setup" if str(entry.get("grade_id", "")).startswith("setup-") else "given"


def restore(submitted: NotebookNode, source: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The submission as it is graded, and notes on what was put right.

    source: the notebook that `build` makes, or its release; cells of an answer are taken from the submission.
    """
    notes: list[str] = []
    known = {str(cell.metadata.nbgrader.grade_id): cell for cell in source.cells if "nbgrader" in cell.metadata}
    by_text = {cell.source.strip(): grade_id for grade_id, cell in known.items() if role_of(cell) in LOCKED}
    seen: set[str] = set()
    cells: list[NotebookNode] = []
    for cell in submitted.cells:
        grade_id = _identity(cell, known, by_text)
        if grade_id is not None and role_of(known[grade_id]) in LOCKED:
            same = cell.get("source", "").strip() == known[grade_id].source.strip()
            if grade_id in seen and same:
                notes.append(f"The cell {grade_id} stood there twice; the copy was removed.")
            elif grade_id in seen:
                cells.append(_own_cell(cell, None, len(cells)))
            else:
                if not same:
                    notes.append(f"The locked cell {grade_id} was changed; it was put back.")
                    cells += _kept(cell, len(cells))
                cells.append(copy.deepcopy(known[grade_id]))
        else:
            first = grade_id is not None and grade_id not in seen
            cells.append(_own_cell(cell, known[grade_id] if first and grade_id else None, len(cells)))
        if grade_id is not None:
            seen.add(grade_id)
    _put_back_missing(cells, source, seen, notes)
    result = nbformat.v4.new_notebook(cells=cells, metadata=copy.deepcopy(source.metadata))
    _unique_ids(result.cells)
    return result, notes


def _identity(cell: NotebookNode, known: dict, by_text: dict[str, str]) -> str | None:
    """Which cell of the exercise this is. Jupyter keeps a cell's id; nbgrader's own id is a learner's to edit."""
    identity = str(cell.get("id", ""))
    matches = [g for g, c in known.items() if c.id == identity]
    if matches:
        return matches[0]
    entry = cell.get("metadata", {}).get("nbgrader")
    grade_id = entry.get("grade_id") if isinstance(entry, dict) else None
    if isinstance(grade_id, str) and grade_id in known:
        return grade_id
    return by_text.get(cell.get("source", "").strip())


def _kept(cell: NotebookNode, place: int) -> list[NotebookNode]:
    """Definitions that a learner wrote into a locked cell: they run before what was put back in their place.

    Looked for in the text: Python's parser takes hours, or all the memory, for some texts of a few MiB.
    """
    defines = cell.get("cell_type") == "code" and DEFINITION.search(cell.get("source", ""))
    return [_own_cell(cell, None, place)] if defines else []


def _own_cell(cell: NotebookNode, original: NotebookNode | None, place: int) -> NotebookNode:
    kind = cell.get("cell_type")
    text = cell.get("source", "")
    if original is not None:
        # An answer turned into text still is the learner's answer, if it is code at all.
        result = copy.deepcopy(original)
        result.source = text
        return result
    make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    return make(text, id=f"own-{place}")


def _put_back_missing(cells: list[NotebookNode], source: NotebookNode, seen: set[str], notes: list[str]) -> None:
    """Put cells that were deleted behind the source cell that came before them."""
    before: str | None = None
    for cell in source.cells:
        if "nbgrader" not in cell.metadata:
            continue
        grade_id = str(cell.metadata.nbgrader.grade_id)
        if grade_id not in seen:
            notes.append(f"The cell {grade_id} was missing; it was put back.")
            fresh = copy.deepcopy(cell)
            if role_of(cell) in ("answer", "written"):
                fresh.source = "" if role_of(cell) == "answer" else "(no answer)"
            places = [i for i, c in enumerate(cells) if c.metadata.get("nbgrader", {}).get("grade_id") == before]
            cells.insert(places[0] + 1 if places else 0, fresh)
        before = grade_id


def _unique_ids(cells: Iterable[NotebookNode]) -> None:
    used: set[str] = set()
    for place, cell in enumerate(cells):
        if cell.get("id") in used:
            cell["id"] = f"own-{place}"
        used.add(cell["id"])
