"""Proves the course: solutions earn everything, blanks nothing, slips are caught and named, variants are accepted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from autograder.bench import Bench
from autograder.build import source_notebook
from autograder.course import Course, Topic
from autograder.grade import Grader
from autograder.grading import bench_of
from autograder.hidden import Result
from autograder.release import hidden_lines, public_leaks
from autograder.sample import fill
from autograder.sandbox.host import Zygote
from autograder.verdict import Verdict

SECRETS = tuple(f"verify-{n}".encode() for n in range(5))


def full_marks(results: dict[str, Result]) -> bool:
    return all(r.outcome.accepted for r in results.values())


def verify_slips(bench: Bench, secrets: Iterable[bytes] = SECRETS) -> dict[str, Any]:
    """`total, caught, named, missed, unnamed` of one topic; unnamed lists (id, what was named instead)."""
    caught: dict[str, bool] = {e.id: True for e in bench.slips}
    unnamed: dict[str, list[str]] = {}
    for number, secret in enumerate(secrets):
        table = bench.run(bench.slips, bench.quick, secret)
        if number == 0 and bench.slow:  # a test that trains is run only where the quick ones saw nothing
            unseen = [e for e in bench.slips if full_marks(table[e.id])]
            for identity, results in bench.run(unseen, bench.slow, secret).items():
                table[identity] |= results
        diagnoser = bench.new_diagnoser(secret)
        diagnoser.preload(table)
        for entry in bench.slips:
            results = table[entry.id]
            if number == 0:
                caught[entry.id] = not full_marks(results)
            named = set(diagnoser.slips(results).values())
            if (caught[entry.id] and not named <= {entry.id, *entry.same_as}) or not named:
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
    for number, secret in enumerate(secrets):
        table = bench.run(bench.variants, [i.test for i in bench.items] if number == 0 else bench.quick, secret)
        for identity, results in table.items():
            for test, result in results.items():
                if not result.outcome.accepted:
                    refused.setdefault(identity, f"{identity}: {test}: {result.outcome}: {result.message}")
    total = len(bench.variants)
    return {"total": total, "accepted": total - len(refused), "refused": list(refused.values())}


def verify(course: Course, topics: list[Topic], *, secrets: int = 5, workers: int = 1) -> dict[str, Any]:
    """The whole proof, in the form that `verify --json` prints; `topics` holds the counts of each.

    Solutions and blanks go through the sandbox like any submission; slips and variants, which are the course's own
    programs, run in this process under several secrets.
    """
    jobs = [(str(course.root), topic.key, secrets) for topic in topics]
    if workers > 1 and len(jobs) > 1:
        with ProcessPoolExecutor(min(workers, len(jobs))) as pool:
            parts = list(pool.map(_verify_topic, jobs))
    else:
        parts = [_verify_topic(job) for job in jobs]
    by_topic = dict(zip([topic.key for topic in topics], parts, strict=True))
    return {
        "solutions": {key: part["solution"] for key, part in by_topic.items()},
        "blanks": {key: part["blank"] for key, part in by_topic.items()},
        "slips": _sum([part["slips"] for part in parts]),
        "variants": _sum([part["variants"] for part in parts]),
        "leaks": public_leaks(course),
        "made_by": "python -m autograder verify --json",
        "secrets": secrets,
        "topics": {
            key: {"slips": part["slips"], "variants": part["variants"], "sources": part["sources"]}
            for key, part in by_topic.items()
        },
    }


def _verify_topic(job: tuple[str, str, int]) -> dict[str, Any]:
    torch.set_num_threads(1)
    root, key, count = job
    bench = bench_of(Topic(Course(Path(root)), key))
    secrets = SECRETS[:count]
    with Zygote() as zygote:
        grader = Grader(bench, zygote, SECRETS[0])
        solution = grader.grade(source_notebook(bench.topic), "solution")
        blank = grader.grade(fill(stubbed(bench), ""), "blank")
    return {
        "solution": _score(solution),
        "blank": _score(blank),
        "slips": verify_slips(bench, secrets),
        "variants": verify_variants(bench, secrets),
        "sources": sources_digest(bench.topic),
    }


def sources_digest(topic: Topic) -> str:
    """Changes with the exercise, its hidden tests, known mistakes and other right answers: then the proof is stale."""
    digest = hashlib.sha256()
    for path in (topic.text, topic.hidden, topic.slips, topic.variants):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def stubbed(bench: Bench) -> Any:
    """The exercise as a learner gets it."""
    from autograder.grade import read_submission
    from autograder.release import release

    return read_submission(bench.topic.exercise if bench.topic.exercise.exists() else release(bench.topic))


def _score(verdict: Verdict) -> dict[str, float]:
    return {"score": verdict.score, "max_score": verdict.max_score}


def _sum(parts: list[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, type(value)()) + value
    return total


def holds(result: dict[str, Any]) -> bool:
    """Whether the proof holds: full marks, no points for blanks, all caught, nine of ten named, all accepted."""
    slips, variants = result["slips"], result["variants"]
    return (
        all(s["score"] == s["max_score"] for s in result["solutions"].values())
        and all(b["score"] == 0 for b in result["blanks"].values())
        and not slips["missed"]
        and slips["named"] >= 0.9 * slips["total"]
        and not variants["refused"]
        and not result["leaks"]
    )


def hidden_in_file(course: Course, path: Path) -> bool:
    """Whether a published file holds a line of a solution or a hidden test of any topic that it is not the page of."""
    if path.suffix not in (".ipynb", ".html", ".js", ".txt", ".json", ".md", ".py"):
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = {line.strip() for line in text.splitlines()}
    return "### BEGIN SOLUTION" in text or any(hidden_lines(topic) & lines for topic in course.topics())
