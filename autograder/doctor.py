"""What this machine can do: sandbox, limits, GPU, database."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict

import torch

from autograder.course import Course
from autograder.record import course_directory
from autograder.sandbox import bubblewrap
from autograder.sandbox.host import Zygote
from autograder.sandbox.limits import Limits


def examine(course: Course) -> tuple[list[tuple[str, str]], bool]:
    """Rows of (what, finding), and whether grading can go on here."""
    reason = _sandbox()
    rows = [
        (
            "system",
            f"{platform.system()} {platform.release()}, Python {sys.version.split()[0]}, torch {torch.__version__}",
        ),
        ("user", "root (learner code runs as nobody)" if os.geteuid() == 0 else f"uid {os.geteuid()}"),
        ("cores", str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())),
        ("sandbox", "works" if reason is None else f"none: {reason}"),
        ("limits", ", ".join(f"{name} {value}" for name, value in asdict(Limits()).items())),
        ("GPU", _gpu()),
        ("database", course_directory(course)[0].db_url.split("@")[-1]),
    ]
    return rows, reason is None


def _sandbox() -> str | None:
    reason = bubblewrap.why_none()
    if reason is not None:
        return reason
    try:
        with Zygote():
            return None
    except bubblewrap.NoSandbox as error:
        return str(error)


def _gpu() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return "none; whether code runs on one is decided on fake tensors of a second device"
