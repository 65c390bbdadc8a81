"""What each command does, in terms of the steps; printing included. Arguments are the command line's business."""

from __future__ import annotations

import json
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from autograder import classroom, doctor, feedback, report, sample
from autograder import verify as proof
from autograder.build import build
from autograder.cells import TopicError
from autograder.codec import readable
from autograder.course import Course, CourseError, Topic
from autograder.grade import course_secret
from autograder.grading import Task, grade_many
from autograder.release import Leak, public_leaks, release
from autograder.sandbox.bubblewrap import NoSandbox
from autograder.slips import SlipError
from autograder.verdict import Outcome, Verdict

EXPECTED = (CourseError, TopicError, SlipError, Leak, NoSandbox)
SHOUT = "[bold red]Without a sandbox, learner code runs as you: it can read and change everything that you can.[/]"


def print_json(value: object) -> None:
    json.dump(value, sys.stdout, indent=1, allow_nan=False)
    print()


def _topics(course: Course, key: str | None) -> list[Topic]:
    return [course.topic(key)] if key else course.topics()


def build_command(course: Course, options: Namespace) -> int:
    for topic in _topics(course, options.topic):
        print(build(topic).relative_to(course.root))
    return 0


def release_command(course: Course, options: Namespace) -> int:
    for topic in _topics(course, options.topic):
        print(release(topic).relative_to(course.root))
    return 0


def intake_command(course: Course, options: Namespace) -> int:
    from autograder.intake import intake

    print(intake(course, options.path))
    return 0


def sample_command(course: Course, options: Namespace) -> int:
    from autograder.intake import intake

    inbox = course.work / "inbox"
    shutil.rmtree(inbox, ignore_errors=True)
    for topic in course.topics():
        if not topic.exercise.exists():
            release(topic)
    sample.write_inbox(course, inbox)
    print(intake(course, inbox))
    return 0


def grade_command(course: Course, options: Namespace) -> int:
    console = Console(stderr=True)
    if options.no_sandbox:
        console.print(SHOUT)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("grading", total=None)
        graded = classroom.grade_course(
            course,
            topic=options.topic,
            student=options.student,
            workers=options.workers,
            sandboxed=not options.no_sandbox,
            progress=lambda done, total, label: progress.update(bar, completed=done, total=total, description=label),
        )
    Console().print(_graded_table(graded))
    broken = classroom.faults(graded)
    if broken:
        console.print(
            f"[bold]{len(broken)} wait for a person[/]: the grader stumbled. Run `grade` again, or look at them."
        )
    return 1 if broken else 0


def _graded_table(graded: Iterable[classroom.Graded]) -> Table:
    table = Table("student", "topic", "score", "outcome", "mistakes named")
    for g in graded:
        slips = ", ".join(dict.fromkeys(i.slip for i in g.verdict.items if i.slip))
        score = f"{g.verdict.score:g}/{g.verdict.max_score:g}"
        table.add_row(g.student, g.topic.key, score, str(g.verdict.outcome), slips)
    return table


def feedback_command(course: Course, options: Namespace) -> int:
    from autograder.intake import arrivals

    arrived = arrivals(course)
    graded = {(t.key, s): v for t, s, v in classroom.verdicts(course)}
    turned_away = [who for who, entry in arrived.items() if entry.verdict == "refused" and who not in graded]
    count = 0
    for key, student in [*graded, *turned_away]:
        if options.topic in (None, key):
            who = key, student
            feedback.write_feedback(course, course.topic(key), student, graded.get(who), arrived.get(who))
            count += 1
    print(f"{count} pages in {course.feedback.relative_to(course.root)}")
    return 0


def report_command(course: Course, options: Namespace) -> int:
    print(report.report(course).relative_to(course.root))
    return 0


def export_command(course: Course, options: Namespace) -> int:
    print(report.export(course).relative_to(course.root))
    return 0


def try_command(course: Course, options: Namespace) -> int:
    topic = course.topic(options.topic)
    sandboxed = not options.no_sandbox
    classroom.require_sandbox(sandboxed)
    if options.no_sandbox:
        Console(stderr=True).print(SHOUT)
    secret = course_secret(course)
    tasks = [
        Task(str(course.root), topic.key, str(path.absolute()), str(path), secret, sandboxed) for path in options.files
    ]
    done = dict(grade_many(dict.fromkeys(tasks), options.workers))
    verdicts = [done[task] for task in tasks]
    if options.json:
        print_json([verdict.public() for verdict in verdicts])
    else:
        for verdict in verdicts:
            _show(verdict)
    return 1 if any(v.outcome is Outcome.GRADER_FAULT for v in verdicts) else 0


def _show(verdict: Verdict) -> None:
    console = Console()
    name = readable(verdict.file, 300)
    console.rule(Text(f"{name}: {verdict.outcome}, {verdict.score:g} of {verdict.max_score:g}"))
    for note in verdict.notes:
        console.print(note, markup=False, style="dim")
    for item in verdict.items:
        console.print(f"{item.points:g}/{item.max_points:g} {item.outcome:12} {item.title}", markup=False)
        if item.message:
            console.print(f"      {item.message}", markup=False)


def verify_command(course: Course, options: Namespace) -> int:
    result = proof.verify(course, _topics(course, options.topic), secrets=options.secrets, workers=options.workers)
    if options.json:
        print_json(result)
    else:
        _show_proof(result)
    return 0 if proof.holds(result) else 1


def _show_proof(result: dict) -> None:
    table = Table("topic", "solution", "blank", "slips caught", "named", "variants")
    for key, one in result["topics"].items():
        slips, variants = one["slips"], one["variants"]
        solution, blank = result["solutions"][key], result["blanks"][key]
        table.add_row(
            key,
            f"{solution['score']:g}/{solution['max_score']:g}",
            f"{blank['score']:g}",
            f"{slips['caught']}/{slips['total']}",
            f"{slips['named']}/{slips['total']}",
            f"{variants['accepted']}/{variants['total']}",
        )
    console = Console()
    console.print(table)
    for title, lines in {
        "missed": result["slips"]["missed"],
        "unnamed": result["slips"]["unnamed"],
        "refused": result["variants"]["refused"],
        "leaks": result["leaks"],
    }.items():
        for line in lines:
            console.print(f"{title}: {line}", markup=False)


def publish_command(course: Course, options: Namespace) -> int:
    found = public_leaks(course)
    if found:
        raise Leak(f"not published, hidden text stands in public files: {found[:5]}")
    site = course.root / "_build" / "html"
    if not (site / "index.html").exists():
        raise CourseError(f"no site at {site}; run: jupyter-book build book/ -W --keep-going")
    target: Path = options.path
    if target.exists() and any(target.iterdir()):
        raise CourseError(f"{target} is not empty; expected a new or empty folder")
    shutil.copytree(site, target, dirs_exist_ok=True)
    shutil.copytree(course.exercises, target / "exercises", dirs_exist_ok=True)
    wrong = [f for f in target.rglob("*") if f.is_file() and proof.hidden_in_file(course, f)]
    if wrong:
        shutil.rmtree(target)
        raise Leak(f"not published, hidden text stands in: {[str(f) for f in wrong[:5]]}")
    print(f"{sum(f.is_file() for f in target.rglob('*'))} files in {target}")
    return 0


def doctor_command(course: Course, options: Namespace) -> int:
    rows, able = doctor.examine(course)
    table = Table("what", "finding")
    for what, finding in rows:
        table.add_row(what, finding)
    Console().print(table)
    return 0 if able else 1
