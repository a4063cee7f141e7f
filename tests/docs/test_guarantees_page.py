"""Every guarantee names an existing test."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "guarantees.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def names_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
    return {name for name in found if name.startswith("test_")}


def test_every_guarantee_names_a_test_that_exists() -> None:
    rows = re.findall(r"^\| (?!promise|-)([^|]+)\|([^|]+)\|$", PAGE.read_text(), re.MULTILINE)

    assert rows
    for promise, holders in rows:
        named = NAMED.findall(holders)
        assert named, f"no test is named for: {promise}"
        for path, name in named:
            assert name in names_of(ROOT / path), f"{path} has no {name}"


def test_the_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`(tests/[\w/.]+)(?:::\w+)?`", PAGE.read_text())

    assert named
    for path in named:
        assert (ROOT / path).exists(), path
