"""Gradebook and verdicts -> tables for the instructor: HTML, and CSV for an LMS. Learner text is shown as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from html import escape
from pathlib import Path

from nbgrader.api import Gradebook

from autograder.build import write_whole
from autograder.classroom import verdicts
from autograder.course import Course
from autograder.feedback import STYLE
from autograder.intake import arrivals
from autograder.record import course_directory, printable
from autograder.verdict import Outcome, Verdict

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def scores(course: Course) -> list[dict[str, object]]:
    """One row a submission, from the gradebook: student, topic, score, max_score, needs_manual_grade."""
    directory, _config = course_directory(course)
    rows: list[dict[str, object]] = []
    with Gradebook(directory.db_url, directory.course_id) as gradebook:
        for assignment in gradebook.assignments:
            for submission in gradebook.assignment_submissions(assignment.name):
                rows.append(
                    {
                        "student": submission.student.id,
                        "topic": assignment.name,
                        "score": submission.score,
                        "max_score": submission.max_score,
                        "needs_manual_grade": submission.needs_manual_grade,
                        "timestamp": submission.timestamp.isoformat() if submission.timestamp else "",
                    }
                )
    return sorted(rows, key=lambda row: (str(row["topic"]), str(row["student"])))


def export(course: Course) -> Path:
    """Scores as CSV. A cell that a spreadsheet would take for a formula starts with an apostrophe."""
    rows = scores(course)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["student", "topic", "score", "max_score", "needs_manual_grade", "timestamp"]
    writer.writerow(names)
    writer.writerows([[safe_cell(row[name]) for name in names] for row in rows])
    path = course.reports / "scores.csv"
    write_whole(path, text.getvalue())
    return path


def safe_cell(value: object) -> object:
    """A value as a CSV cell that no spreadsheet runs."""
    if isinstance(value, str):
        value = printable(value)
        return f"'{value}" if value.startswith(FORMULA_STARTS) else value
    return value


def report(course: Course) -> Path:
    """The instructor's page: scores by student and topic, outcomes, notes, and what waits for a person."""
    graded = list(verdicts(course))
    rows = {(str(r["student"]), str(r["topic"])): r for r in scores(course)}
    warning = (
        "<p class=bad><strong>Some of these were graded without a sandbox.</strong></p>"
        if any(not v.sandboxed for _t, _s, v in graded)
        else ""
    )
    body = "\n".join(_row(s, t.key, v, rows.get((s, t.key))) for t, s, v in graded)
    waiting = [f"{s}, {t.key}" for t, s, v in graded if v.outcome is Outcome.GRADER_FAULT]
    waiting += [f"{s}, {t}" for (s, t), r in rows.items() if r["needs_manual_grade"]]
    path = course.reports / "report.html"
    write_whole(path, _page(warning, body, sorted(set(waiting)), _items(graded), _arrivals(course)))
    return path


def _row(student: str, topic: str, verdict: Verdict, row: dict | None) -> str:
    score = f"{row['score']:g}/{row['max_score']:g}" if row else "not recorded"
    notes = "; ".join([*verdict.notes, *_named(verdict)])
    cells = [student, topic, score, str(verdict.outcome), notes]
    return "<tr>" + "".join(f"<td>{escape(printable(cell))}</td>" for cell in cells) + "</tr>"


def _named(verdict: Verdict) -> list[str]:
    slips = dict.fromkeys(item.slip for item in verdict.items if item.slip)
    return [f"known mistake {slip}" for slip in slips]


def _items(graded: list) -> str:
    counts: dict[tuple[str, str], list[int]] = {}
    for topic, _student, verdict in graded:
        for item in verdict.items:
            right = counts.setdefault((topic.key, item.title), [0, 0])
            right[0] += item.outcome is Outcome.PASS
            right[1] += 1
    return "\n".join(
        f"<tr><td>{escape(topic)}</td><td>{escape(title)}</td><td>{right}/{total}</td></tr>"
        for (topic, title), (right, total) in counts.items()
    )


def _arrivals(course: Course) -> str:
    """Rows for the latest files that were refused or repaired, refused first."""
    found = [(who, entry) for who, entry in arrivals(course).items() if entry.verdict in ("refused", "repaired")]
    found.sort(key=lambda item: (item[1].verdict != "refused", item[0]))
    rows = [(entry.verdict, student, key, entry.file, entry.reason) for (key, student), entry in found]
    return "\n".join("<tr>" + "".join(f"<td>{escape(printable(c))}</td>" for c in row) + "</tr>" for row in rows)


def _table(head: Iterable[str], body: str) -> str:
    columns = "".join(f"<th scope=col>{name}</th>" for name in head)
    return f"<table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>"


def _page(warning: str, body: str, waiting: list[str], items: str, arrived: str) -> str:
    style = STYLE.replace("46rem", "72rem") + "table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid "
    style += "var(--line);padding:.35rem .6rem;text-align:left;vertical-align:top}"
    head = ["what", "student", "topic", "file", "why"]
    came = f"<h2>Files refused or repaired when they came in</h2>{_table(head, arrived)}" if arrived else ""
    people = "".join(f"<li><p>{escape(name)}</p></li>" for name in waiting) or "<li><p>Nothing waits.</p></li>"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Report</title><style>{style}</style></head><body><main><h1>Report</h1>{warning}
<h2>Scores</h2>{_table(["student", "topic", "score", "outcome", "notes"], body)}
<h2>Waiting for a person</h2><ol>{people}</ol>{came}
<h2>Items: how many answers are right</h2>{_table(["topic", "item", "right"], items)}
</main></body></html>
"""
