"""The book's Sphinx extension: offline maths, quizzes, exercise cards, figures to play with, checks."""

import hashlib
from pathlib import Path

from . import card, figures, maths, offline, progress, quiz


def fingerprint():
    """Changes with the code of this extension, so that Sphinx then writes every page anew."""
    return hashlib.sha256(b"".join(p.read_bytes() for p in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()


def setup(app):
    for part in (maths, figures, quiz, card, progress, offline):
        part.setup(app)
    return {"version": "1.0", "env_version": fingerprint(), "parallel_read_safe": True, "parallel_write_safe": True}
