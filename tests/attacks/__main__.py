"""`python -m tests.attacks [WORDS]`: the table of attacks and outcomes; only those whose name holds the words."""

import sys
import time

from autograder.bench import Bench
from autograder.course import find_course
from autograder.sandbox.host import Zygote
from tests.attacks.run import ATTACKS, LIMITS, class_goes_on, grader, run


def main() -> int:
    words = " ".join(sys.argv[1:])
    course = find_course()
    bad = 0
    with Zygote(LIMITS) as zygote:
        tight = grader(Bench.of(course.topic("02_scaled_dot_product")), zygote)
        print(f"{'attack':62} {'outcome':13} {'score':>5} {'s':>6}  the next, right one")
        chosen = [attack for attack in ATTACKS if words in attack.name]
        for attack in chosen:
            began = time.monotonic()
            found = run(attack, tight, course)
            took = time.monotonic() - began
            goes_on = class_goes_on(tight)
            following = "full marks" if goes_on else "NOT full marks"
            print(
                f"{attack.name:62} {found.verdict.outcome:13} {found.verdict.score:5g} {took:6.1f}  {following}",
                flush=True,
            )
            for line in found.wrong:
                print(f"    WRONG: {line[:300]}")
            bad += bool(found.wrong) or not goes_on
    print(f"{len(chosen)} attacks, {bad} that did what they should not")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
