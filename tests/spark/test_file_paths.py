"""Paths as Spark takes them, which reads every one as a pattern."""

import fnmatch

import pytest

from strandline.spark.file_paths import has_wildcard, literal_path, one_file_path, wildcard_path


@pytest.mark.parametrize(
    ("path", "literal", "one_file", "wildcard"),
    [
        ("/a/one.csv", "/a/one.csv", "/a/[o]ne.csv", "/a/one.csv"),
        ("/a/_é.csv", "/a/_é.csv", "/a/_[é].csv", "/a/_é.csv"),
        ("/a b/x[1].csv", r"/a b/x\[1\].csv", r"/a b/x\[1\].csv", r"/a b/x\[1\].csv"),
        ("/{a}/x*?", r"/\{a\}/x\*\?", r"/\{a\}/x\*\?", r"/\{a\}/x*?"),
        ("/a\\b/c", r"/a\\b/c", r"/a\\b/[c]", r"/a\\b/c"),
    ],
)
def test_a_path_is_taken_by_its_name(path: str, literal: str, one_file: str, wildcard: str) -> None:
    assert literal_path(path) == literal
    assert one_file_path(path) == one_file
    assert wildcard_path(path) == wildcard
    assert has_wildcard(path) is ("*" in path)


@pytest.mark.parametrize("name", ["one.csv", "7", "p.csv", "d", "_x-1", "ß", "a^b", "!a"])
def test_one_file_is_a_pattern_that_only_its_name_matches(name: str) -> None:
    pattern = one_file_path(f"/{name}")

    assert "[" in pattern
    assert fnmatch.filter([f"/{name}", "/other", "/1", f"/{name}x"], pattern) == [f"/{name}"]
