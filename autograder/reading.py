"""Reads what a learner hands in: a file becomes cells of text, or is refused with what was expected and what came.

Both intake and grading read here. Of a notebook only its cells survive: their kind, their text, their nbgrader entry.
"""

from __future__ import annotations

import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.codec import readable

MAX_BYTES = 20 << 20
MAX_CELLS = 5_000
# What is kept of a cell's nbgrader entry. Nothing of it is believed: it only helps to tell which cell is which.
ENTRY = ("cell_type", "grade", "grade_id", "locked", "points", "schema_version", "solution", "task")


class Refused(Exception):
    """The file can't be graded as it is; the message says what was expected and what came."""


@dataclass(frozen=True)
class Text:
    """A file as text, and what was put right on the way."""

    text: str
    repairs: tuple[str, ...] = ()


def read_submission(path: Path) -> NotebookNode:
    """The notebook in a file; a `.py` becomes a notebook of one cell. Raises Refused."""
    text = text_of(bytes_of(path)).text
    if path.suffix.lower() == ".py":
        return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)])
    return parse_notebook(text, path.name)


def bytes_of(path: Path) -> bytes:
    """The bytes of an ordinary file of a permitted size. What is looked at is what is read, whoever swaps the name."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        kind = "is no ordinary file" if path.is_symlink() else f"can't be read ({error.strerror})"
        raise Refused(f"{path.name}: expected a notebook or a .py file, and this {kind}.") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path.name}: expected a notebook or a .py file, and this is no ordinary file.")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Refused(f"{path.name}: {status.st_size >> 20} MiB; a submission may have {MAX_BYTES >> 20} MiB.")
    return data


def text_of(data: bytes) -> Text:
    """Bytes as text with uniform line ends."""
    repairs = []
    encoding = "utf-8-sig"
    if data.startswith(b"\xef\xbb\xbf"):
        repairs.append("A byte order mark was removed.")
    elif data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
        repairs.append("The file was UTF-16; it was read as such.")
    text = data.decode(encoding, errors="replace")
    if "\r" in text:
        repairs.append("Line ends were made uniform.")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        repairs.append("NUL characters were removed.")
        text = text.replace("\0", "")
    if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
        repairs.append("Bytes that are not UTF-8 were replaced.")
    return Text(text, tuple(repairs))


def parse_notebook(text: str, name: str) -> NotebookNode:
    """A notebook of any known format as nbformat 4. Raises Refused with what was expected."""
    return parse_with_repairs(text, name)[0]


def parse_with_repairs(text: str, name: str) -> tuple[NotebookNode, list[str]]:
    """As `parse_notebook`, and what was put right."""
    try:
        raw = nbformat.reader.reads(text)
        form = (raw.get("nbformat"), raw.get("nbformat_minor"))
        _shorten_headings(raw)
        notebook = nbformat.convert(raw, 4)
    except RecursionError:
        raise Refused(f"{name}: not a notebook: its JSON is nested too deeply.") from None
    except MemoryError:
        raise
    except Exception as error:
        reason = readable(str(error).split("\n")[0], 160)
        raise Refused(
            f"{name}: not a notebook that Jupyter can read ({type(error).__name__}: {reason}). "
            "Open it in Jupyter, save it, and hand it in again."
        ) from None
    repairs = [] if form[0] == 4 else [f"The notebook was in the old format {form[0]}; it was converted to format 4."]
    return _tidied(notebook, name), [*repairs, *_odd_metadata(notebook)]


def _shorten_headings(raw: Any) -> None:
    """Headings of old formats say their level as a number, and become text with as many signs before it."""
    cells = [cell for sheet in raw.get("worksheets", ()) for cell in sheet.get("cells", ())]
    for cell in cells:
        if "level" in cell:
            cell["level"] = min(int(cell["level"]), 6)


def _odd_metadata(notebook: NotebookNode) -> list[str]:
    """Innocent differences from the exercise that are put right without loss."""
    metadata = notebook.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    repairs = []
    if isinstance(metadata.get("widgets"), dict):
        repairs.append("Saved widget state was dropped.")
    kernel = metadata.get("kernelspec")
    named = kernel.get("name") if isinstance(kernel, dict) else None
    if isinstance(named, str) and named != "python3":
        repairs.append(f"The kernel {readable(named, 40)!r} was replaced by the course's.")
    cells = notebook.get("cells")
    cells = [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []
    if any(cell.get("outputs") for cell in cells):
        repairs.append("Outputs were dropped; the cells are run again.")
    ids = [cell.get("id") for cell in cells]
    if len({i for i in ids if isinstance(i, str)}) < len(ids):
        repairs.append("Missing or doubled cell ids were replaced.")
    return repairs


def _tidied(notebook: NotebookNode, name: str) -> NotebookNode:
    cells = notebook.get("cells")
    if not isinstance(cells, list) or len(cells) > MAX_CELLS:
        raise Refused(f"{name}: not a notebook: expected a list of at most {MAX_CELLS} cells.")
    kept = [_tidied_cell(cell) for cell in cells if _is_cell(cell)]
    return NotebookNode(cells=kept, metadata={}, nbformat=4, nbformat_minor=5)


def _is_cell(cell: Any) -> bool:
    return isinstance(cell, dict) and cell.get("cell_type") in ("code", "markdown", "raw")


def _tidied_cell(cell: dict) -> NotebookNode:
    source = cell.get("source", "")
    source = "".join(map(str, source)) if isinstance(source, list) else str(source)
    metadata = cell.get("metadata")
    entry = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    kept = (
        {key: _clean(value) for key, value in entry.items() if key in ENTRY and _is_plain(value)}
        if isinstance(entry, dict)
        else {}
    )
    return NotebookNode(
        cell_type=cell["cell_type"],
        id=_clean(str(cell.get("id", ""))),
        source=_clean(source),
        metadata={"nbgrader": kept} if kept else {},
    )


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def _clean(value: Any) -> Any:
    """Text without the halves of surrogate pairs, which no file can hold; any other value as it is."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
