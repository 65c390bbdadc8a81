"""The proof of the course: two topics under one secret by default, all under five with COURSE_FULL=1.

By default another test sees that the proof in the book, of all topics under five secrets, is not older than a topic.
"""

import os

import pytest

from autograder.course import find_course
from autograder.verify import holds, verify

FULL = bool(os.environ.get("COURSE_FULL"))
KEYS = [topic.key for topic in find_course().topics()] if FULL else ["02_scaled_dot_product", "04_masking"]


@pytest.mark.parametrize("key", KEYS)
def test_the_proof_holds(key: str, course):
    result = verify(course, [course.topic(key)], secrets=5 if FULL else 1)
    assert result["slips"]["missed"] == []
    assert result["variants"]["refused"] == []
    assert result["leaks"] == []
    assert holds(result), (result["solutions"], result["blanks"], result["slips"]["unnamed"])


def test_holds_sees_each_way_of_failing():
    good = {
        "solutions": {"t": {"score": 9, "max_score": 9}},
        "blanks": {"t": {"score": 0, "max_score": 9}},
        "slips": {"total": 10, "caught": 10, "named": 9, "missed": [], "unnamed": ["x"]},
        "variants": {"total": 1, "accepted": 1, "refused": []},
        "leaks": [],
    }
    assert holds(good)
    for change in (
        {"solutions": {"t": {"score": 8, "max_score": 9}}},
        {"blanks": {"t": {"score": 1, "max_score": 9}}},
        {"slips": good["slips"] | {"missed": ["y"]}},
        {"slips": good["slips"] | {"named": 8}},
        {"variants": {"refused": ["z"]}},
        {"leaks": ["file"]},
    ):
        assert not holds(good | change)
