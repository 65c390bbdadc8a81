"""Frozen records that go between the steps: what was asked, what came out, and the JSON that others rely on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How one item, or one submission, ended. Listed from best to worst."""

    PASS = "pass"
    NOT_VERIFIED = "not_verified"
    NOT_ANSWERED = "not_answered"
    FAIL = "fail"
    ERROR = "error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASH = "crash"
    REFUSED = "refused"
    GRADER_FAULT = "grader_fault"

    @property
    def accepted(self) -> bool:
        """Whether nothing speaks against the answer."""
        return self in (Outcome.PASS, Outcome.NOT_VERIFIED)

    @property
    def severity(self) -> int:
        return list(Outcome).index(self)


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a submission: pass when all pass or could not be verified, else the worst of them."""
    found = max(outcomes, key=lambda o: o.severity, default=Outcome.NOT_ANSWERED)
    return Outcome.PASS if found is Outcome.NOT_VERIFIED else found


@dataclass(frozen=True)
class Item:
    """One hidden test as its author states it. `points` belong to the grade cell `grade_id`.

    slow: it takes seconds, so that known mistakes are not run through it to name one.
    """

    test: str
    grade_id: str
    title: str
    points: float
    hint: str = ""
    slow: bool = False


@dataclass(frozen=True)
class ItemVerdict:
    """The verdict on one hidden test. `slip` is the id of the known mistake that the answer equals, if any."""

    grade_id: str
    title: str
    outcome: Outcome
    points: float
    max_points: float
    message: str = ""
    slip: str | None = None


@dataclass(frozen=True)
class Verdict:
    """The verdict on one submission.

    notes: what the grader repaired or skipped, for learner and instructor.
    timings: seconds by phase; never part of what is compared or recorded.
    """

    topic: str
    file: str
    outcome: Outcome
    items: tuple[ItemVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    sandboxed: bool = True
    key: str = ""
    timings: dict[str, float] = field(default_factory=dict, compare=False)

    @property
    def score(self) -> float:
        return round(sum(item.points for item in self.items), 4)

    @property
    def max_score(self) -> float:
        return round(sum(item.max_points for item in self.items), 4)

    def cell_score(self, grade_id: str) -> float:
        return round(sum(i.points for i in self.items if i.grade_id == grade_id), 4)

    def public(self) -> dict[str, Any]:
        """The object that `try --json` prints."""
        return {
            "file": self.file,
            "topic": self.topic,
            "outcome": str(self.outcome),
            "score": self.score,
            "max_score": self.max_score,
            "items": [{**asdict(item), "outcome": str(item.outcome)} for item in self.items],
            "notes": list(self.notes),
            "sandboxed": self.sandboxed,
        }

    def to_json(self) -> str:
        return json.dumps({**self.public(), "key": self.key}, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        data = json.loads(text)
        items = tuple(ItemVerdict(**{**item, "outcome": Outcome(item["outcome"])}) for item in data["items"])
        return cls(
            topic=data["topic"],
            file=data["file"],
            outcome=Outcome(data["outcome"]),
            items=items,
            notes=tuple(data["notes"]),
            sandboxed=data["sandboxed"],
            key=data["key"],
        )
