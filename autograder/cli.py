"""The command line: arguments only, one call for each command."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from autograder.course import CourseError, find_course


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status. Expected errors are one line on stderr."""
    options = _parser().parse_args(arguments)
    from autograder import commands

    try:
        return getattr(commands, options.command.replace("-", "_") + "_command")(find_course(), options)
    except (CourseError, *commands.EXPECTED) as error:
        print(f"autograder {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped. Run the same command again to go on.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder", description="Build, release, grade and prove the course.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str, *, topic: bool = True) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        if topic:
            command.add_argument("--topic", metavar="KEY", help="one topic, such as 02_scaled_dot_product")
        return command

    add("build", "make the source notebooks from solutions/")
    add("release", "make the exercises, and prove that nothing hidden is in them")
    intake = add("intake", "take submissions in, from a folder or an LMS archive", topic=False)
    intake.add_argument("path", type=Path)
    grade = add("grade", "grade what is new; safe to stop and to repeat")
    grade.add_argument("--student", metavar="ID")
    _workers(grade)
    grade.add_argument("--no-sandbox", action="store_true", help="DANGEROUS: run learner code as this user")
    add("feedback", "write a page for each learner")
    add("report", "write the instructor's page", topic=False)
    add("export", "write the scores as CSV", topic=False)
    attempt = add("try", "grade files that are not submissions", topic=False)
    attempt.add_argument("topic", metavar="TOPIC")
    attempt.add_argument("files", nargs="+", metavar="FILE", type=Path)
    attempt.add_argument("--json", action="store_true")
    attempt.add_argument("--no-sandbox", action="store_true", help="DANGEROUS: run learner code as this user")
    _workers(attempt)
    verify = add("verify", "prove the course")
    verify.add_argument("--json", action="store_true")
    verify.add_argument(
        "--secrets", type=int, default=5, metavar="N", help="name each slip under N secrets (default 5)"
    )
    _workers(verify)
    add("sample", "write the sample class into an inbox, then take it in", topic=False)
    publish = add("publish", "copy site and exercises, and nothing hidden, to a folder", topic=False)
    publish.add_argument("path", type=Path, metavar="DIR")
    add("doctor", "say what this machine can do", topic=False)
    return parser


def _workers(parser: argparse.ArgumentParser) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument("--workers", type=int, default=cores, metavar="N", help=f"default: all cores, here {cores}")


if __name__ == "__main__":
    sys.exit(main())
