"""Intake: whatever arrives gets an entry, nothing climbs out, and repeating it changes nothing."""

import io
import json
import os
import tempfile
import zipfile
from argparse import Namespace
from pathlib import Path, PurePosixPath

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder import feedback, report
from autograder.commands import feedback_command
from autograder.course import Course, CourseError
from autograder.intake import VERDICTS, arrivals, intake
from autograder.intake_archive import Incoming, files_of
from autograder.intake_names import bad_path, bad_student, owner_of, topic_of
from autograder.reading import Refused, parse_notebook, text_of
from autograder.verdict import Outcome, Verdict

FULL = bool(os.environ.get("COURSE_FULL"))


def generated(full: int, small: int = 100):
    return settings(
        max_examples=full if FULL else small, deadline=None, suppress_health_check=list(HealthCheck),
        derandomize=not FULL,
    )  # fmt: skip


KEY, NAME = "02_scaled_dot_product", "scaled_dot_product.ipynb"
EMPTY = json.dumps(nbformat.v4.new_notebook())


@pytest.fixture(scope="module")
def one_topic(course: Course, tmp_path_factory) -> Course:
    root = tmp_path_factory.mktemp("intake") / "course"
    (root / "solutions" / KEY).mkdir(parents=True)
    (root / "solutions" / KEY / "hidden.py").touch()
    (root / "nbgrader_config.py").touch()
    return Course(root)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "student", "person"),
    [
        ("anna/scaled_dot_product.ipynb", "anna", "folder anna"),
        ("doejane_12345_67890_scaled_dot_product-2.ipynb", "doejane", "canvas 12345"),
        ("doejane_LATE_12345_67890_scaled_dot_product.ipynb", "doejane", "canvas 12345"),
        ("Jane  Doe_77_assignsubmission_file_/x.ipynb", "Jane_Doe", "moodle 77"),
        ("Jane Doe_77_assignsubmission_file/x.ipynb", "Jane_Doe", "moodle 77"),
        ("Jane Doe_77_assignsubmission_file_x.ipynb", "Jane_Doe", "moodle 77"),
        ("José Ñandú_7_assignsubmission_file_/x.ipynb", "José_Ñandú", "moodle 7"),
        # Names as people have them: an apostrophe, a comma, vowels that are marks, a joiner that can't be seen.
        ("Seán O’Brien, MSc (Physics)_5_assignsubmission_file_/x.ipynb", "Seán_OBrien_MSc_Physics", "moodle 5"),
        ("अमिता शर्मा_6_assignsubmission_file_/x.ipynb", "अमिता_शर्मा", "moodle 6"),
        ("ශ්\u200dරීමා/x.ipynb", "ශ්රීමා", "folder ශ්\u200dරීමා"),
        # A learner chooses what stands at the end, and gains nothing by it.
        ("anna/doejane_1_2_scaled_dot_product.ipynb", "anna", "folder anna"),
        ("doejane_1_2_roe_3_4_scaled_dot_product.ipynb", "doejane", "canvas 1"),
        ("Roe_8_assignsubmission_file__7_assignsubmission_file_/x.ipynb", "Roe_8_assignsubmission_file_", "moodle 7"),
        # Without folders a learner's name and a file's name can't be told apart, and each may hold such a mark.
        ("Jane Doe_7_assignsubmission_file_Roe_8_assignsubmission_file_x.ipynb", "", ""),
        ("scaled_dot_product.ipynb", "", ""),
        (".", "", ""),
    ],
)
def test_whose_file(path, student, person):
    owner = owner_of(PurePosixPath(path))
    assert (owner.student, owner.person) == (student, person)


@pytest.mark.parametrize(
    "file",
    ["scaled_dot_product.ipynb", "Scaled Dot Product.ipynb", "scaled-dot-product (3).IPYNB",
     "02_scaled_dot_product.ipynb",
     "scaled_dot_product-Copy1.ipynb", "scaled_dot_product copy 2.ipynb", "scaled_dot_product-1-2.ipynb"],
)  # fmt: skip
def test_which_topic(file, one_topic):
    topic, notes = topic_of(one_topic.topics(), PurePosixPath("anna", file), file)
    assert topic is not None and bool(notes) == (file != NAME)


@generated(2_000)
@given(st.text(max_size=80))
def test_any_name_is_whole_or_refused(text):
    path = PurePosixPath(text or "x")
    if path.parts and not bad_path(text):
        owner = owner_of(path)
        if not bad_student(owner.student):
            assert "/" not in owner.student and owner.student not in (".", "..") and not owner.student.startswith("=")
            assert len(owner.student) <= 64


# -- notebooks ---------------------------------------------------------------------------------------------------------

leaf = st.none() | st.booleans() | st.integers(-9, 9**9) | st.text(st.characters(), max_size=9)
anything = st.recursive(
    leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
cell = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "markdown", "raw", "heading", 7]),
        "source": st.text(max_size=20) | st.lists(leaf, max_size=3) | anything,
        "metadata": anything | st.fixed_dictionaries({"nbgrader": anything}),
        "outputs": anything,
        "id": anything,
    },
)
notebook = st.fixed_dictionaries(
    {"nbformat": st.sampled_from([4, 4, 4, 3, 2, 1, 5, "4", None])},
    optional={
        "nbformat_minor": st.integers(-1, 9) | anything,
        "metadata": anything,
        "cells": st.lists(cell, max_size=4) | anything,
        "worksheets": anything,
    },
)


@generated(2_500)
@given(notebook | anything)
def test_any_json_is_a_notebook_or_refused(value):
    try:
        found = parse_notebook(json.dumps(value), "x.ipynb")
    except Refused as error:
        assert str(error).startswith("x.ipynb: not a notebook") and len(str(error)) < 500
        return
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    assert all(set(c) == {"cell_type", "id", "source", "metadata"} and isinstance(c.source, str) for c in found.cells)


@generated(1_500)
@given(st.binary(max_size=300))
def test_any_bytes_are_text(data):
    text = text_of(data).text
    assert "\r" not in text and "\0" not in text
    with pytest.raises(Refused):
        parse_notebook(text[:50] + "{", "x")


# -- archives ----------------------------------------------------------------------------------------------------------

PARTS = ["anna", "..", ".", "con", NAME, "=1", "C:", "a\\b", "\x1b", KEY, "__MACOSX", "é"]
PARTS += ["Jane Doe_7_assignsubmission_file_", "doejane_1_2_scaled_dot_product.ipynb"]
part = st.sampled_from(PARTS) | st.text(max_size=6)  # fmt: skip
member = st.tuples(
    st.lists(part, min_size=1, max_size=4).map("/".join),
    st.sampled_from([EMPTY, "{", "", "x" * 500]) | st.text(max_size=20),
    st.sampled_from([0, 0o100644, 0o120777, 0o020666, 0o040755, 0o010644]),
)  # fmt: skip


def zipped(members) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text, mode in members:
            info = zipfile.ZipInfo(name or "x", (2026, 3, 1, 12, 0, 0))
            info.external_attr = mode << 16
            archive.writestr(info, text.encode("utf-8", "replace"))
    return buffer.getvalue()


@generated(1_500, 60)
@given(members=st.lists(member, max_size=6), cut=st.none() | st.integers(0, 400), flip=st.none() | st.integers(0, 400))
def test_any_archive_gets_entries_and_nothing_climbs_out(one_topic, members, cut, flip):
    data = bytearray(zipped([(n.encode("utf-8", "replace").decode().replace("\0", ""), t, m) for n, t, m in members]))
    if flip is not None and flip < len(data):
        data[flip] ^= 0x55
    with tempfile.TemporaryDirectory(dir=one_topic.root.parent) as folder:
        path = Path(folder, "archive.zip")
        path.write_bytes(bytes(data[:cut]))
        outside = {p for p in one_topic.root.parent.rglob("*") if one_topic.work not in p.parents}
        report = intake(one_topic, path)
        assert all(entry.verdict in VERDICTS for entry in report.entries)
        after = {p for p in one_topic.root.parent.rglob("*") if one_topic.work not in p.parents}
        assert after - outside <= {one_topic.work}
        names = {p.name for p in one_topic.submitted.rglob("*") if p.is_file()}
        assert names <= {NAME, "timestamp.txt"}


def test_a_bomb_of_names_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "many.zip"
    data = bytearray(zipped([("a", "x", 0)]))
    place = data.rfind(b"PK\x05\x06")
    data[place + 12 : place + 16] = (2**31).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    assert [found.problem for found in files_of(path)] != [""]


# -- the whole step ----------------------------------------------------------------------------------------------------


def test_again_gives_the_same_bytes(one_topic, tmp_path):
    (tmp_path / "anna").mkdir()
    path = tmp_path / "anna" / "Scaled Dot Product (1).ipynb"
    path.write_text(EMPTY)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    first = intake(one_topic, tmp_path)
    before = snapshot(one_topic.work)
    assert intake(one_topic, tmp_path) == first and snapshot(one_topic.work) == before
    stamp = one_topic.submitted / "anna" / KEY / "timestamp.txt"
    assert stamp.read_text() == "2023-11-14 22:13:20 UTC\n"
    entry = arrivals(one_topic)[KEY, "anna"]
    assert entry.verdict == "repaired" and "put right" in entry.reason
    assert "1 repaired" in str(first)


def test_a_refused_file_leaves_the_submission_before_it(one_topic, tmp_path):
    (tmp_path / "ben").mkdir()
    path = tmp_path / "ben" / NAME
    path.write_text(EMPTY)
    intake(one_topic, tmp_path)
    path.write_text("{")
    report = intake(one_topic, tmp_path)
    assert "still counts" in report.entries[0].reason
    assert (one_topic.submitted / "ben" / KEY / NAME).exists()


def test_the_learner_and_the_instructor_read_what_became_of_a_file(one_topic, tmp_path):
    for student, text in (("dan", "{"), ("cora", EMPTY)):
        (tmp_path / student).mkdir()
        (tmp_path / student / "Scaled Dot Product (1).ipynb").write_text(text)
    intake(one_topic, tmp_path)
    assert feedback_command(one_topic, Namespace(topic=None)) == 0
    page = (one_topic.feedback / "dan" / KEY / f"{NAME.removesuffix('.ipynb')}.html").read_text()
    assert "This is not a zero" in page and "was refused" in page and "not a notebook" in page
    assert not (one_topic.feedback / "cora").exists()
    verdict = Verdict(KEY, NAME, Outcome.PASS)
    assert "after a repair" in feedback.page(KEY, "cora", verdict, arrivals(one_topic)[KEY, "cora"])
    rows = report.report(one_topic).read_text()
    assert "<td>refused</td><td>dan</td>" in rows and "<td>repaired</td><td>cora</td>" in rows


def test_another_person_of_the_same_name_later_is_refused(one_topic, tmp_path):
    for number, verdict in ((111, "accepted"), (222, "refused"), (111, "accepted")):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(zipped([(f"poejane_{number}_5_{NAME}", EMPTY, 0)]))
        assert [e.verdict for e in intake(one_topic, path).entries] == [verdict]


def test_a_submission_without_room_says_what_to_do(one_topic, tmp_path, monkeypatch):
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna" / NAME).write_text(EMPTY)

    def full(*_):
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr("autograder.intake.write_whole", full)
    with pytest.raises(CourseError, match=r"make room .* run intake again"):
        intake(one_topic, tmp_path)


def test_times_of_a_zip(tmp_path):
    info = zipfile.ZipInfo(f"anna/{NAME}", (2026, 3, 1, 12, 30, 10))
    info.extra = b"UT\x05\x00\x01" + (1_700_000_000).to_bytes(4, "little")
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, EMPTY)
        archive.writestr(zipfile.ZipInfo(f"ben/{NAME}", (2026, 3, 1, 12, 30, 10)), EMPTY)
    first, second = list(files_of(path))
    assert isinstance(first, Incoming)
    assert f"{first.when:%Y-%m-%d %H:%M:%S}" == "2023-11-14 22:13:20" and f"{second.when:%H:%M}" == "12:30"
