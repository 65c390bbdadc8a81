"""What odd means: each row changes a right (or wrong) submission and says what must become of it.

A row writes files into an inbox. The file goes through intake and, where it is taken in, through grading.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FULL, NOTHING = 9.0, 0.0
NAME = "scaled_dot_product.ipynb"


@dataclass(frozen=True)
class Row:
    """taken: `accepted`, `repaired`, `refused` or `ignored`. score: None where nothing is graded. says: in a note."""

    name: str
    write: Callable[[Path, dict], None]
    taken: str
    score: float | None
    says: str = ""
    wrong: bool = False


ROWS: list[Row] = []


def row(name: str, taken: str = "accepted", score: float | None = FULL, says: str = "", *, wrong: bool = False):
    """A row that writes into the student's folder. wrong: it starts from a wrong answer."""

    def add(function: Callable[[Path, dict], None]):
        ROWS.append(Row(name, function, taken, score, says, wrong))
        return function

    return add


def changed(name: str, taken: str = "accepted", score: float | None = FULL, says: str = "", *, wrong: bool = False):
    """A row that changes the notebook and nothing else."""

    def add(function: Callable[[dict], object]):
        def write(folder: Path, notebook: dict) -> None:
            function(notebook)
            (folder / NAME).write_text(json.dumps(notebook))

        ROWS.append(Row(name, write, taken, score, says, wrong))
        return function

    return add


def code(source: str, **metadata: object) -> dict:
    return {
        "cell_type": "code", "id": f"x{abs(hash(source)) % 10**8}", "metadata": metadata, "source": source,
        "outputs": [], "execution_count": None,
    }  # fmt: skip


def entries(notebook: dict) -> list[dict]:
    return [cell["metadata"]["nbgrader"] for cell in notebook["cells"] if "nbgrader" in cell["metadata"]]


def named(notebook: dict, grade_id: str) -> dict:
    cells = [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id]
    return cells[0]


def copy_of(cell: dict) -> dict:
    return copy.deepcopy(cell)
