"""Code as tutorials have it, handed in whole: what is right earns its points, and each limit is named."""

from pathlib import Path

import pytest

from autograder.bench import Bench
from autograder.grade import Grader
from autograder.verdict import Outcome

FOLDER = Path(__file__).parent / "tutorial"
CASES = {
    "multi_head": (
        "03_multi_head",
        {
            "the error names the sizes": "names d_model and num_heads",
            "rows that may attend nowhere": "gets equal weights",
            "masks in half precision": "float16 can't hold that number",
            "a layer without biases": "no argument `bias`",
        },
    ),
    "positions": (
        "05_absolute_positions",
        {
            "more than max_len tokens are refused": "not refused with a ValueError",
            "the module with an odd width": "more cosines than columns",
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_limits_of_a_tutorials_code_are_named(name, course, zygote):
    key, limits = CASES[name]
    verdict = Grader(Bench.of(course.topic(key)), zygote, b"a secret of the tests").grade_file(FOLDER / f"{name}.py")
    answered = [item for item in verdict.items if item.outcome is not Outcome.NOT_ANSWERED]
    assert {item.title for item in answered if item.outcome is not Outcome.PASS} == set(limits)
    for item in answered:
        assert item.points == (0 if item.title in limits else item.max_points)
        assert limits.get(item.title, "") in item.message
        assert (item.slip is not None) == (item.title in limits)
