"""Every attack scores nothing, changes nothing outside, shows nothing, and the class goes on."""

import pytest

from autograder.grade import Grader
from autograder.sandbox.host import Zygote
from tests.attacks.run import ATTACKS, LIMITS, class_goes_on, grader, run


@pytest.fixture(scope="module")
def tight(bench):
    with Zygote(LIMITS) as zygote:
        yield grader(bench, zygote)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(attack, tight: Grader, course):
    assert run(attack, tight, course).wrong == ()
    assert class_goes_on(tight)


def test_there_are_as_many_as_promised():
    assert len(ATTACKS) >= 40 and len({attack.name for attack in ATTACKS}) == len(ATTACKS)
