"""Proves the course: solutions earn everything, blanks nothing, slips are caught and named, variants are accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from autograder.cells import answer_names, reference_source, run_source
from autograder.course import Topic
from autograder.diagnose import Diagnoser
from autograder.hidden import Result, collect_items, run_tests
from autograder.probe import Learner, LocalChannel
from autograder.slips import Entry, read_entries
from autograder.verdict import Item, Outcome

SECRETS = tuple(f"verify-{n}".encode() for n in range(5))


@dataclass(frozen=True)
class Bench:
    """One topic made ready to run programs in this process: trusted ones only, never a learner's."""

    topic: Topic
    items: list[Item]
    names: tuple[str, ...]
    reference: dict[str, Any]
    slips: list[Entry]
    variants: list[Entry]

    @classmethod
    def of(cls, topic: Topic) -> Bench:
        source = reference_source(topic.text)
        return cls(
            topic,
            collect_items(topic.hidden),
            answer_names(topic.text),
            run_source(source, topic.key),
            read_entries(topic.slips, source),
            read_entries(topic.variants, source),
        )

    def local(self, namespace: dict[str, Any]) -> Callable[..., Learner]:
        present = [name for name in self.names if name in namespace]
        return lambda record: Learner(LocalChannel(namespace), present, record)

    def run(self, entries: Iterable[Entry], tests: Iterable[str], secret: bytes) -> dict[str, dict[str, Result]]:
        """Results of the entries on the tests, by id and test."""
        learners = {e.id: self.local(run_source(e.source, f"{self.topic.key} {e.id}")) for e in entries}
        if not learners:
            return {}
        return run_tests(
            self.topic.hidden,
            learners,
            self.local(self.reference),
            secret=secret,
            topic=self.topic.key,
            only=tests,
        )

    def run_reference(self, secret: bytes) -> dict[str, str]:
        """The tests that the reference itself does not pass."""
        learner = self.local(self.reference)
        tests = run_tests(self.topic.hidden, {"reference": learner}, learner, secret=secret, topic=self.topic.key)
        return {t: r.message for t, r in tests["reference"].items() if r.outcome is not Outcome.PASS}

    def diagnoser(self, secret: bytes) -> Diagnoser:
        by_id = {entry.id: entry for entry in self.slips}
        quick = [item.test for item in self.items if not item.slow]
        return Diagnoser(by_id, quick, lambda ids, tests: self.run([by_id[i] for i in ids], tests, secret))


def full_marks(results: dict[str, Result]) -> bool:
    return all(r.outcome in (Outcome.PASS, Outcome.NOT_VERIFIED) for r in results.values())


def verify_slips(bench: Bench, secrets: Iterable[bytes] = SECRETS) -> dict[str, Any]:
    """`total, caught, named, missed, unnamed` of one topic; unnamed lists (id, what was named instead)."""
    tests = [item.test for item in bench.items]
    quick = [item.test for item in bench.items if not item.slow]
    caught: dict[str, bool] = {e.id: True for e in bench.slips}
    unnamed: dict[str, list[str]] = {}
    for number, secret in enumerate(secrets):
        table = bench.run(bench.slips, tests if number == 0 else quick, secret)
        diagnoser = bench.diagnoser(secret)
        diagnoser.preload(table)
        for entry in bench.slips:
            results = table[entry.id]
            if number == 0:
                caught[entry.id] = not full_marks(results)
            named = set(diagnoser.slips(results).values())
            if caught[entry.id] and not named <= {entry.id, *entry.same_as} or not named:
                unnamed.setdefault(entry.id, []).extend(sorted(named - {entry.id}) or ["nothing"])
    missed = [i for i, found in caught.items() if not found]
    silent = [f"{i}: {', '.join(sorted(set(n)))}" for i, n in unnamed.items() if caught[i]]
    total = len(bench.slips)
    return {
        "total": total,
        "caught": total - len(missed),
        "named": total - len(missed) - len(silent),
        "missed": missed,
        "unnamed": silent,
    }


def verify_variants(bench: Bench, secrets: Iterable[bytes] = SECRETS) -> dict[str, Any]:
    """`total, accepted, refused` of one topic; refused lists (id, first test, message)."""
    refused: dict[str, str] = {}
    quick = [item.test for item in bench.items if not item.slow]
    for number, secret in enumerate(secrets):
        table = bench.run(bench.variants, [i.test for i in bench.items] if number == 0 else quick, secret)
        for identity, results in table.items():
            for test, result in results.items():
                if result.outcome is not Outcome.PASS:
                    refused.setdefault(identity, f"{identity}: {test}: {result.outcome}: {result.message}")
    total = len(bench.variants)
    return {"total": total, "accepted": total - len(refused), "refused": list(refused.values())}
