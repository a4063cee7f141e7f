"""What a release is checked for, and that the hosted checks are those of the Makefile."""

import re
import tomllib
from pathlib import Path

import pytest

from tools.api_baseline import breaks, stubs
from tools.lowest import name_of, requirements, without_oldest
from tools.release import digests, untyped

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

OLD = """\
def open(url: str, *, mode: str = "write") -> Log: ...
class Log:
    def append(self, topic: str, value: Any) -> Receipt: ...
    def close(self) -> None: ...
"""


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("    def close(self) -> None: ...\n", "", "Log.close: "),
        ("value: Any", "value: Any, key: str", "Log.append(key): "),
        (', *, mode: str = "write"', "", "open(mode): "),
        ('mode: str = "write"', "mode: str", "open(mode): "),
        ("topic: str, value: Any", "value: Any, topic: str", "Log.append(topic): "),
    ],
)
def test_what_breaks_a_caller_is_named(before: str, after: str, named: str) -> None:
    assert before in OLD

    found = breaks("strandline", OLD, OLD.replace(before, after))

    assert found, "a break went unnoticed"
    assert found[0].startswith(f"strandline: {named}")


@pytest.mark.slow
def test_what_a_class_inherits_is_part_of_the_interface() -> None:
    interface = stubs(ROOT / "src")["strandline"]

    consumer = interface.partition("\nclass AsyncConsumer:\n")[2].partition("\nclass ")[0]

    assert "    blocking: " in consumer
    assert "    async def __aenter__(self)" in consumer


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("value: Any", "value: Any, *, key: str | None = None"),
        ("class Log:", "class Log:\n    def flush(self) -> None: ..."),
    ],
)
def test_what_is_added_breaks_no_caller(before: str, after: str) -> None:
    assert breaks("strandline", OLD, OLD.replace(before, after)) == []


def test_packages_are_compared_by_their_bytes(tmp_path: Path) -> None:
    for folder, text in (("a", "same"), ("b", "same"), ("c", "other")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "strandline-1-py3-none-any.whl").write_text(text)
    a, b, c = (digests(tmp_path / each) for each in "abc")

    assert a == b
    assert a != c


def test_the_oldest_packages_are_those_that_users_get() -> None:
    needed = requirements(PROJECT)

    assert set(PROJECT["dependencies"]) <= set(needed)
    assert {name_of(each) for each in needed} >= {"obstore", "psycopg", "typer"}
    assert "pyspark" not in {name_of(each) for each in needed}


def test_the_oldest_packages_replace_those_of_the_lock_file() -> None:
    lock = "msgspec==0.22 \\\n    --hash=sha256:1\npytest==9 \\\n    --hash=sha256:2\n"

    assert without_oldest(lock, ["msgspec>=0.20"]) == "pytest==9 \\\n    --hash=sha256:2\n"


def test_each_lower_bound_is_stated() -> None:
    unbound = [each for each in requirements(PROJECT) if not re.search(r"[>~]=", each)]

    assert not unbound, "state the oldest version that `make test-lowest` passes with"


def test_the_hosted_checks_run_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    run = re.findall(r"run: make ([a-z-]+)", WORKFLOW.read_text())
    run += re.findall(r"target: ([a-z-]+)", WORKFLOW.read_text())

    assert {"lint", "docs", "test", "test-rest", "test-lowest", "release", "torture"} <= set(run)
    assert set(run) <= targets


def test_each_python_of_the_classifiers_is_among_the_hosted_checks() -> None:
    listed = re.search(r"python: (\[.*\])", WORKFLOW.read_text())
    assert listed
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))

    assert set(named) <= set(re.findall(r"3\.\d+", listed[1]))


def test_a_public_name_of_an_unknown_or_inferred_type_is_named() -> None:
    known = {"name": "log.a", "isTypeKnown": True, "isTypeAmbiguous": False, "diagnostics": []}
    said = {"diagnostics": [{"message": "Type is missing\nInferred"}]}
    symbols = [
        known,
        {**known, **said, "name": "log.b", "isTypeKnown": False},
        {**known, **said, "name": "log.c", "isTypeAmbiguous": True},
    ]

    assert list(untyped(symbols)) == [
        "log.b: Type is missing Inferred",
        "log.c: Type is missing Inferred",
    ]
