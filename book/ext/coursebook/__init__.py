"""The book's Sphinx extension: offline maths, quizzes, exercise cards, figures to play with, checks."""

from . import card, figures, maths, offline, progress, quiz


def setup(app):
    for part in (maths, figures, quiz, card, progress, offline):
        part.setup(app)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
