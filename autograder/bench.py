"""One topic made ready: its items, its reference, its known mistakes and right answers, run in this process.

Only trusted programs run here: those that the course itself ships. A learner's code never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nbformat import NotebookNode

from autograder.build import source_notebook
from autograder.cells import answer_names, reference_source, run_source
from autograder.course import Topic
from autograder.diagnose import Diagnoser
from autograder.hidden import Result, collect_items, run_tests
from autograder.probe import Learner, LocalChannel
from autograder.slips import Entry, read_entries
from autograder.verdict import Item, Outcome


@dataclass
class Bench:
    """One topic made ready to run programs in this process: trusted ones only, never a learner's."""

    topic: Topic
    items: list[Item]
    names: tuple[str, ...]
    reference: dict[str, Any]
    slips: list[Entry]
    variants: list[Entry]
    _diagnosers: dict[bytes, Diagnoser] = field(default_factory=dict)

    @property
    def quick(self) -> list[str]:
        """The tests that answer at once."""
        return [item.test for item in self.items if not item.slow]

    @property
    def slow(self) -> list[str]:
        """The tests that train."""
        return [item.test for item in self.items if item.slow]

    @cached_property
    def notebook(self) -> NotebookNode:
        """The source notebook, which submissions are restored from."""
        return source_notebook(self.topic)

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
        """Names mistakes under a secret; what it has learnt about the known ones is kept."""
        if secret not in self._diagnosers:
            self._diagnosers[secret] = self.new_diagnoser(secret)
        return self._diagnosers[secret]

    def new_diagnoser(self, secret: bytes) -> Diagnoser:
        """One that knows nothing yet, and that nobody keeps."""
        by_id = {entry.id: entry for entry in self.slips}
        return Diagnoser(by_id, self.quick, lambda ids, tests: self.run([by_id[i] for i in ids], tests, secret))
