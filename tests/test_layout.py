"""Rules of the repository that matter: imports point one way, generated files are fresh, nothing hidden is public."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

from autograder.course import Course
from autograder.release import leaks, public_leaks, release
from autograder.verify import holds, sources_digest

PACKAGE = Path(__file__).parent.parent / "autograder"
# From the bottom up; a module may import what stands before it.
ORDER = [
    "sandbox.limits", "sandbox.syscalls", "sandbox.fake", "codec", "sandbox.stub", "sandbox.shell", "sandbox.watch",
    "sandbox.zygote", "sandbox.bubblewrap", "sandbox.host", "verdict", "course", "cells", "slips", "probe",
    "checks", "hidden", "diagnose", "build", "bench", "reading", "restore", "wire", "session", "grade", "grading",
    "intake_names", "intake_archive", "intake", "record", "release", "classroom", "sample", "verify", "feedback",
    "report", "doctor", "commands", "cli",
]  # fmt: skip


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("autograder"):
            base = node.module.removeprefix("autograder").strip(".")
            names = [f"{base}.{alias.name}".strip(".") for alias in node.names]
            found |= {name if _exists(name) else base for name in names}
    return found - {""}


def _exists(name: str) -> bool:
    return (PACKAGE / (name.replace(".", "/") + ".py")).exists()


def module_name(path: Path) -> str:
    return str(path.relative_to(PACKAGE).with_suffix("")).replace("/", ".")


MODULES = [p for p in sorted(PACKAGE.rglob("*.py")) if p.name not in ("__init__.py", "__main__.py")]


def wrong_imports(name: str, imported: set[str], order: list[str]) -> list[str]:
    return [other for other in sorted(imported) if other not in order or order.index(other) >= order.index(name)]


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_point_one_way(path: Path):
    name = module_name(path)
    assert name in ORDER, f"{name} has no place in the order yet"
    late = {other for other in imports(path) if other in LATE.get(name, ())}
    assert wrong_imports(name, imports(path) - late, ORDER) == []


# Imports inside a function, where two steps need each other's result and not each other's code.
LATE: dict[str, tuple[str, ...]] = {}


def test_the_rule_on_imports_finds_a_wrong_one():
    assert wrong_imports("codec", {"grade"}, ORDER) == ["grade"]


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_function_stays_short(path: Path):
    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    long = [f.name for f in functions if (f.end_lineno or 0) - f.lineno > 60]
    assert long == []


def test_only_course_knows_folder_names():
    words = re.compile(r"""["'](solutions|exercises|submitted|autograded|verdicts|reports)["']""")
    guilty = [p.name for p in MODULES if p.name != "course.py" and words.search(p.read_text())]
    assert set(guilty) <= {"commands.py", "verify.py"}  # the public folder of the site; a key of the JSON


def topics(course: Course) -> list[str]:
    return [topic.key for topic in course.topics()]


def pytest_generate_tests(metafunc):
    if "key" in metafunc.fixturenames:
        root = Course(PACKAGE.parent)
        metafunc.parametrize("key", topics(root))


def test_the_exercise_is_fresh(key: str, course: Course, tmp_path: Path, monkeypatch):
    import shutil

    root = tmp_path / "course"
    shutil.copytree(course.solutions / key, root / "solutions" / key)
    for name in ("nbgrader_config.py", "_config.yml"):
        shutil.copy(course.root / name, root)
    monkeypatch.setenv("ATTENTION_COURSE", str(root))
    fresh = release(Course(root).topic(key))
    committed = course.topic(key).exercise
    assert committed.exists(), f"run: python -m autograder release --topic {key}"
    assert fresh.read_bytes() == committed.read_bytes(), f"run: python -m autograder release --topic {key}"


def test_nothing_hidden_is_public(course: Course):
    assert public_leaks(course) == []


def test_a_leak_is_found(course: Course, bench):
    line = next(line.strip() for line in bench.topic.hidden.read_text().splitlines() if "check_close(" in line)
    assert leaks(bench.topic, f"text\n{line}\n") == [line]


def test_no_path_or_host_of_a_machine_stands_in_the_repository(course: Course):
    tracked = subprocess.run(["git", "ls-files"], cwd=course.root, capture_output=True, text=True, check=True).stdout
    pattern = re.compile("/" + "work/(main|shared)|/" + "root/|files\\.python" + "hosted|pypi" + r"\.org")
    guilty = []
    for name in tracked.splitlines():
        path = course.root / name
        text = path.suffix in (".py", ".md", ".yml", ".txt", ".toml", ".ipynb", ".js", ".css", "")
        if text and path.is_file() and pattern.search(path.read_text(encoding="utf-8", errors="replace")):
            guilty.append(name)
    assert guilty == []


def test_the_proof_in_the_book_is_of_these_files(course: Course):
    proof = json.loads((course.book / "proof.json").read_text())
    made = {topic.key: sources_digest(topic) for topic in course.topics()}
    assert {key: one["sources"] for key, one in proof["topics"].items()} == made, "run: make proof"
    assert holds(proof)
