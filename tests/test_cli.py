"""The command line: the JSON that others rely on, and errors in one line."""

import json
import os
import subprocess
import sys

import pytest

from autograder.cli import main
from autograder.sandbox import bubblewrap
from autograder.verdict import Outcome

KEY = "02_scaled_dot_product"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "autograder", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | environment)


def test_try_prints_the_agreed_json(tmp_path):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text("def softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n")
    wrong.write_text("def softmax(x, dim=-1):\n    return torch.softmax(x, -1)\n")
    result = run("try", KEY, str(right), str(wrong), str(tmp_path / "none.py"), "--json")
    assert result.returncode == 0, result.stderr
    first, second, third = json.loads(result.stdout)
    assert first["file"] == str(right) and first["topic"] == KEY
    assert (first["score"], first["max_score"], first["outcome"]) == (3, 9, "not_answered")
    assert {"grade_id", "title", "outcome", "points", "max_points", "message", "slip"} == set(first["items"][0])
    assert second["outcome"] == "fail" and "SM-09" in {item["slip"] for item in second["items"]}
    assert third["outcome"] == "refused" and third["score"] == 0
    assert {item["outcome"] for entry in (first, second, third) for item in entry["items"]} <= set(map(str, Outcome))


def test_an_unknown_topic_is_one_line(capsys):
    assert main(["try", "99_nothing", "x.py"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "unknown topic '99_nothing'; expected one of" in error


def test_no_sandbox_no_grading(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("def softmax(x, dim=-1):\n    return x\n")
    # A PATH without bubblewrap is a machine without it.
    result = run("try", KEY, str(path), PATH=str(tmp_path))
    assert result.returncode == 2
    assert "No sandbox, no grading" in result.stderr and "apt-get install bubblewrap" in result.stderr
    result = run("try", KEY, str(path), "--no-sandbox", "--json", PATH=str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)[0]["sandboxed"] is False
    assert "learner code runs as you" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("platform", "words"), [("darwin", "needs Linux namespaces"), ("win32", "needs Linux namespaces")]
)
def test_doctor_says_why_there_is_no_sandbox(platform, words, monkeypatch):
    monkeypatch.setattr(bubblewrap.sys, "platform", platform)
    assert words in (bubblewrap.why_none() or "")


@pytest.mark.parametrize(
    ("switch", "value", "words"),
    [
        ("apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("max_user_namespaces", "0", "user.max_user_namespaces"),
        ("nothing", "", "seccomp"),
    ],
)
def test_the_advice_names_the_switch(switch, value, words, monkeypatch, tmp_path):
    class Fake:
        def __init__(self, path):
            self._on = str(path).endswith(switch)

        def exists(self):
            return self._on

        def read_text(self):
            return value + "\n"

    monkeypatch.setattr(bubblewrap, "Path", Fake)
    assert words in bubblewrap._advice()
