"""Runs a notebook's cells inside the sandbox: an IPython shell that has no sockets of its own.

What a cell prints is clipped here for honest code; the grader clips it once more, since learner code can reach this.
"""

from __future__ import annotations

import io
import sys
from typing import Any

import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from autograder.sandbox.stub import describe

PRINTED_PER_CELL = 10_000


class Clipped(io.TextIOBase):
    """Keeps the beginning of what is printed, and lets the rest go."""

    encoding = "utf-8"

    def __init__(self, limit: int):
        self._left = limit
        self._parts: list[str] = []

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1  # the null device

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._left > 0:
            self._parts.append(text[: self._left])
            self._left -= len(self._parts[-1])
        return len(text)

    def text(self) -> str:
        return "".join(self._parts)


class Shell(InteractiveShell):
    """An IPython shell that reports errors as data and prints no traceback."""

    def showtraceback(self, *args: Any, **kwargs: Any) -> None:
        pass

    def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
        pass

    def ask_exit(self) -> None:
        """`exit` and `quit` in a cell end nothing."""


def make() -> Shell:
    """The shell, made before the fork because it takes a while. It holds nothing but IPython's own names."""
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "nocolor"
    settings.InteractiveShell.banner1 = ""
    return Shell.instance(config=settings)


class Cells:
    """The operation `cell` of the channel. output_bytes: kept of all prints together."""

    def __init__(self, shell: Shell, output_bytes: int):
        self._shell, self._left = shell, output_bytes

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        source = bytes(request["source"].tolist()).decode()
        printed = Clipped(min(self._left, PRINTED_PER_CELL))
        sys.stdout = sys.stderr = printed
        outcome = self._shell.run_cell(source, store_history=True)
        text = printed.text()
        self._left -= len(text)
        error = outcome.error_before_exec or outcome.error_in_exec
        return {"status": "error" if error else "ok", "printed": text, **_words(error)}


def _words(error: BaseException | None) -> dict[str, str]:
    if error is None:
        return {"ename": "", "evalue": ""}
    described = describe(error)
    return {"ename": described["kinds"][0], "evalue": described["text"]}


def source_tensor(source: str) -> torch.Tensor:
    """A cell's text as it crosses: the encoding clips strings, and a cell may be long."""
    return torch.tensor(list(source.encode("utf-8", "replace")), dtype=torch.uint8)
