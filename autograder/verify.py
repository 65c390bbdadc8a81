"""Proves the course: solutions earn everything, blanks nothing, slips are caught and named, variants are accepted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autograder.bench import Bench
from autograder.hidden import Result
from autograder.verdict import Outcome

SECRETS = tuple(f"verify-{n}".encode() for n in range(5))


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
