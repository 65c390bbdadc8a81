"""Verdict -> the HTML page that a learner reads. All text is escaped; nothing of the submission is markup here."""

from __future__ import annotations

from html import escape
from pathlib import Path

from autograder.build import write_whole
from autograder.course import Course, Topic
from autograder.intake import Entry
from autograder.record import printable
from autograder.verdict import ItemVerdict, Outcome, Verdict

WORDS = {
    Outcome.PASS: "right",
    Outcome.FAIL: "not right yet",
    Outcome.ERROR: "raised an error",
    Outcome.TIMEOUT: "ran out of time",
    Outcome.MEMORY: "ran out of memory",
    Outcome.CRASH: "ended the kernel",
    Outcome.NOT_ANSWERED: "not answered",
    Outcome.REFUSED: "could not be graded",
    Outcome.NOT_VERIFIED: "could not be tried here",
    Outcome.GRADER_FAULT: "the grader stumbled; a person will look at it",
}

STYLE = """
:root { color-scheme: light dark; --line: #8886; --good: #17663a; --bad: #a3271b; --soft: #8881; }
@media (prefers-color-scheme: dark) { :root { --good: #7fd6a2; --bad: #ff9b8f; } }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
ol { list-style: none; padding: 0; } li { border: 1px solid var(--line); border-radius: .5rem; margin: .6rem 0; }
li > * { margin: .5rem .9rem; } .head { display: flex; gap: 1rem; justify-content: space-between; }
.good { color: var(--good); } .bad { color: var(--bad); } .said { white-space: pre-wrap; overflow-wrap: anywhere; }
.score { font-size: 1.3rem; } footer { color: GrayText; margin-top: 2rem; font-size: .9rem; }
"""


def write_feedback(
    course: Course, topic: Topic, student: str, verdict: Verdict | None, arrived: Entry | None = None
) -> Path:
    """The learner's page, at nbgrader's place for it. arrived: what intake said of the learner's latest file; verdict:
    None when no file of the learner's could be taken in."""
    path = course.feedback / student / topic.key / f"{topic.name}.html"
    write_whole(path, page(topic.key, student, verdict, arrived) if verdict else refused(topic.key, student, arrived))
    return path


def page(title: str, student: str, verdict: Verdict, arrived: Entry | None = None) -> str:
    """A whole page for one verdict."""
    items = "\n".join(_item(item) for item in verdict.items)
    warning = "" if verdict.sandboxed else "<p class=bad><strong>Graded without a sandbox.</strong></p>"
    body = f"""{warning}
<p class=score><strong>{verdict.score:g} of {verdict.max_score:g} points</strong></p>
<p>{_opening(verdict)}</p>
<h2>Item by item</h2><ol>
{items}
</ol>{_about([*_arrival(arrived), *verdict.notes])}"""
    return _page(title, student, body)


def refused(title: str, student: str, arrived: Entry | None) -> str:
    """A whole page for a file that could not be taken in, when there is none before it that counts."""
    body = f"""
<p class=score><strong>Not graded yet</strong></p>
<p>Your file could not be taken in, so there is no score. This is not a zero. Repair the file, or ask your instructor,
and hand it in again.</p>{_about(_arrival(arrived))}"""
    return _page(title, student, body)


def _about(notes: list[str]) -> str:
    lines = "".join(f"<li><p class=said>{_text(note)}</p></li>" for note in notes)
    return f"<h2>About your file</h2><ol>{lines}</ol>" if notes else ""


def _arrival(arrived: Entry | None) -> list[str]:
    if arrived is None or arrived.verdict == "accepted":
        return []
    if arrived.verdict == "refused":
        return [f"Your latest file, {arrived.file}, was refused: {arrived.reason}"]
    return [f"Your file was taken in after a repair. {note}" for note in arrived.notes]


def _page(title: str, student: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{_text(title)}: feedback</title><style>{STYLE}</style></head>
<body><main><h1>{_text(title)}</h1><p>Feedback for {_text(student)}</p>{body}</main>
<footer>The score comes from hidden tests on other inputs than the visible checks. The same file always gets the same
score.</footer></body></html>
"""


def _opening(verdict: Verdict) -> str:
    right = sum(item.outcome is Outcome.PASS for item in verdict.items)
    if verdict.outcome is Outcome.PASS:
        return "Everything that was tried is right."
    if verdict.outcome is Outcome.REFUSED:
        return "The file could not be graded. Below stands why, and what to do."
    first = next((i for i in verdict.items if not i.outcome.accepted), None)
    start = f" Start with: {_text(first.title)}." if first else ""
    return f"{right} of {len(verdict.items)} items are right.{start}"


def _item(item: ItemVerdict) -> str:
    good = item.outcome.accepted
    message = f"<p class=said>{_text(item.message)}</p>" if item.message else ""
    return (
        f"<li><p class=head><strong>{_text(item.title)}</strong><span class={'good' if good else 'bad'}>"
        f"{item.points:g}/{item.max_points:g}, {WORDS[item.outcome]}</span></p>{message}</li>"
    )


def _text(text: str) -> str:
    return escape(printable(text))
