"""Runs the hidden tests of one topic under pytest, in the grader's process, and turns results into outcomes.

The tests are ordinary pytest functions with the fixtures `learner`, `reference` and `rng`. This module is the plugin
that provides them; what a test is written with stands in `checks`.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from autograder.checks import CheckFailed, Inputs, NotVerified
from autograder.codec import BadFrame
from autograder.probe import CallTimeout, KernelDied, Learner, LearnerError, NotAnswered
from autograder.sandbox.bubblewrap import NoSandbox
from autograder.verdict import Item, Outcome


class HiddenTestsBroken(Exception):
    """The hidden tests themselves can't be collected: a grader fault."""


@dataclass
class Result:
    """One test against one learner: outcome, sentence, and the trace of what the learner's code answered."""

    outcome: Outcome = Outcome.GRADER_FAULT
    message: str = "The test did not run."
    trace: list[tuple[str, Any]] = field(default_factory=list)


MakeLearner = Callable[[Callable[[str, Any], None]], Learner]


def seed_of(secret: bytes, topic: str, test: str) -> int:
    """The seed of one test: the same for every submission, and not to be guessed without the course secret."""
    digest = hashlib.sha256(b"\0".join([secret, topic.encode(), test.encode()])).digest()
    return int.from_bytes(digest[:7], "big")


def collect_items(hidden: Path) -> list[Item]:
    """The items of a topic, in the order of the file, without running one.

    Raises HiddenTestsBroken when the file can't be collected or a test has no item marker.
    """
    collector = _Collector()
    status = _run_pytest(hidden, ["--collect-only"], collector)
    if status != pytest.ExitCode.OK or not collector.items:
        raise HiddenTestsBroken(f"{hidden}: can't be collected: {collector.errors[:1] or status}")
    return collector.items


def run_tests(
    hidden: Path,
    learners: dict[str, MakeLearner],
    reference: MakeLearner,
    *,
    secret: bytes,
    topic: str,
    only: Iterable[str] | None = None,
) -> dict[str, dict[str, Result]]:
    """Run the tests (or `only` those) against each learner; results by learner and test name."""
    plugin = _Plugin(learners, reference, secret, topic, None if only is None else frozenset(only))
    _run_pytest(hidden, [], plugin)
    return plugin.results


def _run_pytest(hidden: Path, options: Sequence[str], plugin: Any) -> int:
    # Nothing of the folder the grader was started in may take part: no ini file, no conftest, no cache, and no
    # plugin that happens to be installed or named in the environment.
    isolated = ["-c", os.devnull, "--rootdir", str(hidden.parent), "--noconftest", "--import-mode=importlib"]
    isolated += ["-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:logging", "--capture=no", "--assert=plain"]
    # It collects garbage again and again at the end of each run, which takes several times as long as the tests.
    isolated += ["-p", "no:unraisableexception", "-p", "no:threadexception"]
    kept = {name: os.environ.pop(name) for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS") if name in os.environ}
    autoload = os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # Every topic's file has the same name, and pytest takes a module of that name as it finds it.
    sys.modules.pop(hidden.stem, None)
    try:
        return pytest.main([*isolated, *options, str(hidden)], plugins=[plugin])
    finally:
        sys.modules.pop(hidden.stem, None)
        os.environ.update(kept)
        if autoload is None:
            del os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]


class _Collector:
    def __init__(self) -> None:
        self.items: list[Item] = []
        self.errors: list[str] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "item(grade_id, points, title, hint): what a hidden test scores")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(report.longreprtext)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        marker = item.get_closest_marker("item")
        if marker is None:
            raise pytest.UsageError(f"{item.nodeid} has no @item(...) marker")
        self.items.append(Item(test=_test_name(item), grade_id=marker.args[0], **marker.kwargs))


class _Plugin:
    """Fixtures and bookkeeping; a learner is a parameter of each test, so that known mistakes run in one session."""

    def __init__(self, learners, reference, secret, topic, only):
        self._learners, self._reference = learners, reference
        self._secret, self._topic, self._only = secret, topic, only
        self.results: dict[str, dict[str, Result]] = {name: {} for name in learners}
        self._trace: list[tuple[str, Any]] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "item(grade_id, points, title, hint): what a hidden test scores")
        # A traceback with source lines costs more than most tests do, and nobody reads it.
        config.option.tbstyle = "native"

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "learner" in metafunc.fixturenames:
            metafunc.parametrize("learner", list(self._learners), indirect=True, ids=list(self._learners))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._only is not None:
            items[:] = [item for item in items if _test_name(item) in self._only]

    @pytest.fixture
    def learner(self, request: pytest.FixtureRequest) -> Learner:
        trace = self._trace = []
        learner = self._learners[request.param](lambda what, result: trace.append((what, result)))
        marker = request.node.get_closest_marker("item")
        learner.begin(self._seed(request.node), patient=bool(marker and marker.kwargs.get("slow")))
        return learner

    @pytest.fixture
    def reference(self, request: pytest.FixtureRequest) -> Learner:
        reference = self._reference(lambda what, result: None)
        reference.begin(self._seed(request.node))
        reference.trusted = True
        return reference

    @pytest.fixture
    def rng(self, request: pytest.FixtureRequest) -> Inputs:
        return Inputs(self._seed(request.node))

    def _seed(self, node: pytest.Item) -> int:
        return seed_of(self._secret, self._topic, _test_name(node))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._trace = []
        state = torch.get_rng_state()
        try:
            return (yield)
        finally:
            torch.set_rng_state(state)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Any:
        report = yield
        if call.when == "teardown":
            return report
        name = item.callspec.params["learner"] if hasattr(item, "callspec") else next(iter(self._learners))
        if call.when == "call" or call.excinfo is not None:
            error = call.excinfo.value if call.excinfo else None
            outcome, message = classify(error)
            on_our_side = isinstance(error, NoSandbox | MemoryError)
            if outcome is Outcome.GRADER_FAULT and not on_our_side and self._blames_answer(item):
                outcome = Outcome.FAIL
                message = f"The answer does not have the form that the exercise asks for ({_short_text(error)})."
            self.results[name][_test_name(item)] = Result(outcome, message, self._trace)
        return report

    def _blames_answer(self, item: pytest.Item) -> bool:
        """A test that stumbles over an odd answer, and not over the reference, found a wrong answer, not a fault."""
        arguments = dict(item.funcargs)  # type: ignore[attr-defined]
        if "learner" not in arguments:
            return False
        seed = self._seed(item)
        for name in ("learner", "reference"):
            if name in arguments:
                arguments[name] = self._reference(lambda what, result: None)
                arguments[name].begin(seed)
        arguments["rng"] = Inputs(seed)
        wanted = item._fixtureinfo.argnames  # type: ignore[attr-defined]
        try:
            item.obj(**{name: arguments[name] for name in wanted})  # type: ignore[attr-defined]
        except Exception:
            return False
        return True


def classify(error: BaseException | None) -> tuple[Outcome, str]:
    """The outcome that an exception out of a hidden test means, and the learner's sentence."""
    match error:
        case None:
            return Outcome.PASS, ""
        case NotVerified():
            return Outcome.NOT_VERIFIED, str(error)
        case CheckFailed():
            return Outcome.FAIL, _capital(str(error))
        case NotAnswered():
            return Outcome.NOT_ANSWERED, str(error)
        case LearnerError():
            return (Outcome.MEMORY if error.is_memory else Outcome.ERROR), str(error)
        case CallTimeout():
            return Outcome.TIMEOUT, str(error)
        case KernelDied():
            return (Outcome.MEMORY if error.memory else Outcome.CRASH), str(error)
        case BadFrame():
            return Outcome.ERROR, f"The answer could not be read: {error}."
        case _:
            return Outcome.GRADER_FAULT, f"The grader stumbled ({_short_text(error)}). A person will look at this."


def _short_text(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {str(error)[:120]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _test_name(item: Any) -> str:
    """The name without the learner's parameter; other parameters of the test stay part of it."""
    name = item.originalname
    params = {k: v for k, v in item.callspec.params.items() if k != "learner"} if hasattr(item, "callspec") else {}
    return name + (f"[{'-'.join(map(str, params.values()))}]" if params else "")
