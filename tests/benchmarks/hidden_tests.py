"""`python -m tests.benchmarks.hidden_tests [KEY ...]`: what the hidden tests of each topic cost, and which are needed.

For each topic: the time of one right submission in the sandbox, the smallest set of tests that catches every known
mistake, and the tests that catch none. A test outside the smallest set is not useless: it scores one idea by itself.
"""

from __future__ import annotations

import sys
from itertools import combinations

import torch

from autograder.bench import Bench
from autograder.course import find_course
from autograder.grade import Grader
from autograder.sandbox.host import Zygote

SECRET = b"the secret of the benchmark"


def catches(bench: Bench) -> dict[str, set[str]]:
    """The known mistakes that each quick test catches, and for each slow one the first that it is found to catch."""
    found: dict[str, set[str]] = {item.test: set() for item in bench.items}
    for identity, outcomes in bench.run(bench.slips, bench.quick, SECRET).items():
        for test, result in outcomes.items():
            if not result.outcome.accepted:
                found[test].add(identity)
    for test in bench.slow:
        for entry in reversed(bench.slips):
            if not bench.run([entry], [test], SECRET)[entry.id][test].outcome.accepted:
                found[test].add(entry.id)
                break
    return found


def smallest(found: dict[str, set[str]]) -> tuple[str, ...]:
    """A smallest set of tests that together catch all that is caught."""
    wanted = set().union(*found.values())
    by = {identity: [t for t, caught in found.items() if identity in caught] for identity in wanted}
    needed = {tests[0] for tests in by.values() if len(tests) == 1}
    left = wanted - set().union(*(found[t] for t in needed))
    others = [t for t in found if t not in needed and found[t] & left]
    for size in range(len(others) + 1):
        for more in combinations(others, size):
            if left <= set().union(*(found[t] for t in more)):
                return tuple(t for t in found if t in needed or t in more)
    raise AssertionError("all tests together catch what each of them catches")


def main() -> int:
    torch.set_num_threads(1)
    course = find_course()
    topics = [topic for topic in course.topics() if topic.key in sys.argv[1:] or len(sys.argv) == 1]
    with Zygote() as zygote:
        for topic in topics:
            bench = Bench.of(topic)
            times = Grader(bench, zygote, SECRET).grade(bench.notebook, "solution").timings
            found = catches(bench)
            chosen = smallest(found)
            idle = [test for test, caught in found.items() if not caught]
            print(
                f"{topic.key}: cells {times['cells']:.1f} s, hidden tests {times['hidden tests']:.1f} s; "
                f"{len(chosen)} of {len(found)} tests catch all {len(bench.slips)} known mistakes: {', '.join(chosen)}"
            )
            print(f"    catch none: {', '.join(idle) or 'no test'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
