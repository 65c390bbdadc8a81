"""Every odd submission gets the outcome that its row states."""

import pytest

from autograder.sandbox.host import Zygote
from tests.odd.run import LIMITS, ROWS, grader, run, small_course


@pytest.fixture(scope="module")
def patient(bench):
    with Zygote(LIMITS) as zygote:
        yield grader(bench, zygote)


@pytest.fixture(scope="module")
def one_topic(course, tmp_path_factory):
    return small_course(course, tmp_path_factory.mktemp("odd") / "course")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_odd(row, patient, one_topic, tmp_path):
    assert run(row, patient, one_topic, tmp_path).wrong == ()
