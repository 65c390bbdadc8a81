"""Reads `slips.py` and `variants.py`: known mistakes and known right answers, as programs made from the reference.

Both files are read as syntax, never imported. An entry is either a definition that replaces the reference's,

    @slip("SD-02", "The scores are divided by d_k, not by its square root.")
    def scaled_dot_product_attention(q, k, v, mask=None): ...

or an edit of the reference's text: `edit("SD-02", "sentence", ("find", "put"), ...)`. A variant is written with
`@variant("V06", "what differs")` or `edit`. Other top-level functions and imports of the file are helpers that every
definition may use. `same_as=("ID", ...)` lists mistakes that no test can tell apart.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


class SlipError(Exception):
    """An entry can't be read or does not fit the reference; the message names it."""


@dataclass(frozen=True)
class Entry:
    """A known mistake or right answer: `source` is the whole program; `name` is what it redefines."""

    id: str
    sentence: str
    source: str
    same_as: tuple[str, ...] = ()


def read_entries(path: Path, reference: str) -> list[Entry]:
    """The entries of a slips or variants file, in order. Raises SlipError."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    body = ast.parse(text, filename=str(path)).body
    helpers = "\n".join(ast.get_source_segment(text, node) or "" for node in body if _is_helper(node))
    entries = [_entry(node, text, reference, helpers, path) for node in body if _call(node)]
    ids = [entry.id for entry in entries]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise SlipError(f"{path}: the ids {twice} stand twice")
    return entries


def _call(node: ast.stmt) -> ast.Call | None:
    """The `slip(...)`, `variant(...)` or `edit(...)` call of an entry."""
    candidates: list[ast.expr] = []
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        candidates = node.decorator_list
    elif isinstance(node, ast.Expr):
        candidates = [node.value]
    for call in candidates:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _WORDS:
            return call
    return None


_WORDS = ("slip", "variant", "edit")


def _is_helper(node: ast.stmt) -> bool:
    if _call(node) or (isinstance(node, ast.ImportFrom) and node.module == "autograder.slips"):
        return False
    return isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Assign)


def _entry(node: ast.stmt, text: str, reference: str, helpers: str, path: Path) -> Entry:
    call = _call(node)
    assert call is not None
    try:
        arguments = [ast.literal_eval(argument) for argument in call.args]
        keywords = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    except ValueError as error:
        raise SlipError(f"{path}:{node.lineno}: the arguments must be literals: {error}") from None
    identity, sentence, *edits = arguments
    if isinstance(node, ast.Expr):
        source = _edited(reference, edits, f"{path}:{node.lineno}: {identity}")
    else:
        source = "\n\n".join([reference, helpers, _without_entry_decorator(node, text)]) + "\n"
    return Entry(identity, sentence, source, tuple(keywords.get("same_as", ())))


def _without_entry_decorator(node: ast.stmt, text: str) -> str:
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    call = _call(node)
    others = [d for d in node.decorator_list if d is not call]
    lines = [f"@{ast.get_source_segment(text, d)}" for d in others]
    return "\n".join([*lines, ast.get_source_segment(text, node) or ""])


def _edited(reference: str, edits: list, label: str) -> str:
    source = reference
    for find, put in edits:
        if source.count(find) != 1:
            raise SlipError(f"{label}: the text {find!r} stands {source.count(find)} times in the reference, not once")
        source = source.replace(find, put)
    if source == reference:
        raise SlipError(f"{label}: an edit that changes nothing")
    return source


def slip(identity: str, sentence: str, same_as: tuple[str, ...] = ()):
    """Marks a definition as a known mistake; `sentence` is what the learner reads."""
    return lambda definition: definition


def variant(identity: str, difference: str):
    """Marks a definition as a right answer written differently."""
    return lambda definition: definition


def edit(identity: str, sentence: str, *edits: tuple[str, str], same_as: tuple[str, ...] = ()) -> None:
    """A known mistake or right answer made by replacing text of the reference; each `find` must stand in it once."""
