"""`python -m tests.odd [WORDS]`: the table of odd submissions and outcomes; only those whose name holds the words."""

import sys
import tempfile
from pathlib import Path

from autograder.bench import Bench
from autograder.course import find_course
from autograder.sandbox.host import Zygote
from tests.odd.run import KEY, LIMITS, ROWS, grader, run, small_course


def main() -> int:
    words = " ".join(sys.argv[1:])
    course = find_course()
    chosen = [row for row in ROWS if words in row.name]
    bad = 0
    with Zygote(LIMITS) as zygote, tempfile.TemporaryDirectory() as folder:
        patient = grader(Bench.of(course.topic(KEY)), zygote)
        one_topic = small_course(course, Path(folder, "course"))
        print(f"{'odd submission':78} {'intake':9} {'score':>5}  notes")
        for number, row in enumerate(chosen):
            found = run(row, patient, one_topic, Path(folder, str(number)))
            score = "-" if found.score is None else f"{found.score:g}"
            print(f"{row.name:78} {found.taken:9} {score:>5}  {found.notes[:120]}", flush=True)
            for line in found.wrong:
                print(f"    WRONG: {line[:400]}")
            bad += bool(found.wrong)
    print(f"{len(chosen)} odd submissions, {bad} with another outcome than expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
