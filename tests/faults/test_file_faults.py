"""Stopped at any write, no room, no right to write, damaged files: run again, and it is as if nothing had been."""

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from autograder.course import Course, CourseError
from autograder.grading import store, stored_verdict
from autograder.intake import intake
from autograder.verdict import Outcome, Verdict

KEY, NAME = "02_scaled_dot_product", "scaled_dot_product.ipynb"
PASSED = Verdict(KEY, NAME, Outcome.PASS)


@pytest.fixture
def one_topic(tmp_path) -> Course:
    root = tmp_path / "course"
    (root / "solutions" / KEY).mkdir(parents=True)
    (root / "solutions" / KEY / "hidden.py").touch()
    return Course(root)


@pytest.fixture
def inbox(tmp_path) -> Path:
    for number, student in enumerate(("anna", "ben", "cleo", "dan")):
        path = tmp_path / "inbox" / student / NAME
        path.parent.mkdir(parents=True)
        cell = nbformat.v4.new_code_cell(f"x = {number}", id="x")
        path.write_text(json.dumps(nbformat.v4.new_notebook(cells=[cell])))
        os.utime(path, (1_700_000_000 + number,) * 2)
    return tmp_path / "inbox"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class Stopped(BaseException):
    """The power goes."""


def stop_at(monkeypatch, name: str, number: int) -> None:
    """The number-th call of os.<name> never happens."""
    original, calls = getattr(os, name), iter(range(1, 1000))

    def call(*args, **kwargs):
        if next(calls) == number:
            raise Stopped
        return original(*args, **kwargs)

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("name", ["replace", "fsync"])
@pytest.mark.parametrize("number", range(1, 12))
def test_intake_stopped_at_any_write(one_topic, inbox, monkeypatch, name, number):
    intake(one_topic, inbox)
    undisturbed = snapshot(one_topic.work)
    shutil.rmtree(one_topic.work)
    with monkeypatch.context() as patch:
        stop_at(patch, name, number)
        with pytest.raises(Stopped):
            intake(one_topic, inbox)
    half = snapshot(one_topic.work)
    assert {k for k, v in half.items() if v != undisturbed.get(k)} == set()
    intake(one_topic, inbox)
    assert snapshot(one_topic.work) == undisturbed


@pytest.mark.parametrize("name", ["replace", "fsync"])
def test_a_verdict_is_written_whole_or_not_at_all(one_topic, monkeypatch, name):
    topic = one_topic.topic(KEY)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_at(patch, name, 1)
        store(topic, "anna", PASSED, "key-1")
    assert stored_verdict(topic, "anna", "key-1") is None
    store(topic, "anna", PASSED, "key-1")
    assert stored_verdict(topic, "anna", "key-1") is not None
    assert [p.name for p in (one_topic.verdicts / KEY).iterdir()] == ["anna.json"]


@pytest.mark.parametrize("damage", [b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"topic": 1}', b"x" * 10_000])
def test_a_damaged_verdict_is_none(one_topic, damage):
    topic = one_topic.topic(KEY)
    store(topic, "anna", PASSED, "key-1")
    (one_topic.verdicts / KEY / "anna.json").write_bytes(damage)
    assert stored_verdict(topic, "anna", "key-1") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff"])
def test_damaged_notes_of_intake_are_made_anew(one_topic, inbox, damage):
    intake(one_topic, inbox)
    undisturbed = snapshot(one_topic.work)
    for name in ("people", "submissions", "last"):
        (one_topic.work / "intake" / f"{name}.json").write_bytes(damage)
    intake(one_topic, inbox)
    assert snapshot(one_topic.work) == undisturbed


@contextlib.contextmanager
def small_disk(folder: Path, kib: int):
    folder.mkdir(parents=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip("no right to mount a small disk here")
    try:
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_says_so_and_nothing_is_lost(one_topic, inbox):
    with small_disk(one_topic.work, 16) as remount:
        with pytest.raises(CourseError, match="No space left"):
            intake(one_topic, inbox)
        for path in one_topic.submitted.rglob("*.ipynb"):
            json.loads(path.read_text())
        remount("size=4m")
        assert len(intake(one_topic, inbox).of("accepted")) == 4


def test_a_read_only_folder_says_so(one_topic, inbox):
    with small_disk(one_topic.work, 4096) as remount:
        remount("ro")
        with pytest.raises(CourseError, match="Read-only"):
            intake(one_topic, inbox)
        remount("rw")
        assert len(intake(one_topic, inbox).of("accepted")) == 4


def test_a_clock_that_jumped_is_said(one_topic, inbox):
    os.utime(inbox / "anna" / NAME, (4_000_000_000,) * 2)
    report = intake(one_topic, inbox)
    assert "lies in the future" in report.entries[0].reason and report.entries[0].verdict == "accepted"


def test_three_intakes_at_once(one_topic, inbox):
    intake(one_topic, inbox)
    undisturbed = snapshot(one_topic.work)
    shutil.rmtree(one_topic.work)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                intake(one_topic, inbox)
                os._exit(0)
            os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert snapshot(one_topic.work) == undisturbed
