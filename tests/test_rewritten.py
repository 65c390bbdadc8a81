"""One known mistake in five, put into programs of another hand: caught, and still named.

`tests/rewritten/NN_name/program.py` is a right answer with other names, other operators and another order of steps;
`mistakes.py` beside it changes that text, as `slips.py` changes the reference. Ids are those of the known mistakes.
"""

import os
from pathlib import Path

import pytest

from autograder.bench import Bench
from autograder.cells import reference_source
from autograder.slips import Entry, read_entries
from autograder.verify import full_marks

REWRITTEN = Path(__file__).parent / "rewritten"
SECRET = b"another hand"
KEYS = sorted(folder.name for folder in REWRITTEN.iterdir() if (folder / "mistakes.py").exists())
QUICK = ("04_masking",)


def programs(bench: Bench) -> tuple[Entry, list[Entry]]:
    """The right program, and the mistakes in it, as whole programs."""
    reference = reference_source(bench.topic.text)
    own = (REWRITTEN / bench.topic.key / "program.py").read_text(encoding="utf-8")
    entries = read_entries(REWRITTEN / bench.topic.key / "mistakes.py", own)
    return Entry("right", "", reference + "\n\n" + own), [
        Entry(e.id, e.sentence, reference + "\n\n" + e.source, e.same_as) for e in entries
    ]


@pytest.mark.parametrize("key", KEYS)
def test_mistakes_in_another_hand_are_named(key: str, course):
    if key not in QUICK and not os.environ.get("COURSE_FULL"):
        pytest.skip("COURSE_FULL=1 runs this topic, too")
    bench = Bench.of(course.topic(key))
    known = {entry.id: entry for entry in bench.slips}
    right, mistakes = programs(bench)
    assert {m.id for m in mistakes} <= set(known)
    assert 5 * len(mistakes) >= len(known)
    table = bench.run([right, *mistakes], bench.quick, SECRET)
    assert full_marks(table["right"]), {t: r.message for t, r in table["right"].items() if r.message}
    diagnoser = bench.diagnoser(SECRET)
    diagnoser.preload(bench.run(bench.slips, bench.quick, SECRET))
    named = {m.id: set(diagnoser.slips(table[m.id]).values()) for m in mistakes}
    assert not [i for i in named if full_marks(table[i])]
    wrong = {i: sorted(found) for i, found in named.items() if not found <= {i, *known[i].same_as}}
    assert not wrong
    assert sum(bool(found) for found in named.values()) >= 0.9 * len(named), [i for i in named if not named[i]]
