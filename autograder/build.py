"""topic.py -> nbgrader's source notebook: stable cell ids, checked markers, points from the hidden tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat

from autograder.cells import Cell, TopicError, read_cells
from autograder.course import Topic
from autograder.hidden import collect_items
from autograder.verdict import Item

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# Without the course's own grading classes a cell's last value is its score, so the cell fails closed.
FAIL_CLOSED = "0.0  # the score comes from hidden tests, not from this cell"


def build(topic: Topic) -> Path:
    """Write the source notebook of a topic; the same bytes for the same text. Raises TopicError."""
    write_notebook(topic.source, source_notebook(topic))
    return topic.source


def source_notebook(topic: Topic) -> nbformat.NotebookNode:
    """The notebook with solutions in it."""
    cells, header = read_cells(topic.text)
    points = cell_points(collect_items(topic.hidden))
    checks = {cell.name for cell in cells if cell.kind == "check"}
    if checks != set(points):
        raise TopicError(f"{topic.key}: check cells {sorted(checks)}, but hidden tests score {sorted(points)}")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [_notebook_cell(cell, place, points) for place, cell in enumerate(cells)]
    if topic.chapter:
        notebook.cells[0].source += f"\n\n**Read first** [the chapter of this exercise]({topic.chapter})."
    by_hand = sum(cell.points for cell in cells if cell.kind == "written")
    notebook.metadata = {
        "kernelspec": KERNEL,
        "language_info": {"name": "python"},
        "course": {
            "topic": topic.key,
            "title": header.get("title", topic.name),
            "minutes": header.get("minutes", 60),
            "points": _number(sum(points.values()) + by_hand),
        },
    }
    nbformat.validate(notebook)
    return notebook


def cell_points(items: Iterable[Item]) -> dict[str, float]:
    """Points of each grade cell: the sum of its hidden tests."""
    points: dict[str, float] = {}
    for item in items:
        points[item.grade_id] = points.get(item.grade_id, 0.0) + item.points
    return points


def _notebook_cell(cell: Cell, place: int, points: dict[str, float]) -> nbformat.NotebookNode:
    identity = {"free": f"cell-{place}", "check": cell.name, "written": cell.name}.get(
        cell.kind, f"{cell.kind}-{cell.name}"
    )
    source = cell.source
    metadata: dict[str, Any] = {}
    if cell.kind == "check":
        source = f"# Check of {cell.name}. Points: {_number(points[cell.name])}\n{source}\n{FAIL_CLOSED}"
    if cell.kind != "free":
        metadata["nbgrader"] = _nbgrader(cell, identity, points)
    if cell.kind in ("check", "setup", "given"):
        metadata |= {"deletable": False, "editable": False}
    make = nbformat.v4.new_code_cell if cell.type == "code" else nbformat.v4.new_markdown_cell
    return make(source, id=identity.replace("_", "-")[:64], metadata=metadata)


def _nbgrader(cell: Cell, identity: str, points: dict[str, float]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "cell_type": cell.type,
        "grade": cell.kind in ("check", "written"),
        "grade_id": identity,
        "locked": cell.kind in ("setup", "given", "check"),
        "schema_version": 3,
        "solution": cell.kind in ("answer", "written"),
        "task": False,
    }
    if entry["grade"]:
        entry["points"] = _number(points[cell.name] if cell.kind == "check" else cell.points)
    return entry


def _number(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def write_notebook(path: Path, notebook: nbformat.NotebookNode) -> None:
    """Write a notebook whole or not at all, with sorted keys, so that equal notebooks are equal bytes."""
    write_whole(path, json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file whole or not at all."""
    import os
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
