"""Paths for Spark, which treats every path that it loads from as a pattern."""

import re
from typing import Final

_SPECIAL: Final = re.compile(r"[\\*?\[\]{}]")
_LETTER: Final = re.compile(r"[^\W_]")
_SCHEME: Final = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*:(?=/)")
_UNSAFE: Final = re.compile(r"[^\w/.~!$&'()+=@-]")
_SPECIAL_BUT_WILDCARDS: Final = re.compile(r"[\\\[\]{}]")


def literal_path(path: str) -> str:
    """Return a pattern that matches exactly this path, whatever characters are in it."""
    return _SPECIAL.sub(r"\\\g<0>", path)


def one_file_path(path: str) -> str:
    """Return a pattern that a stream resolves to this file; without one it reads folders only."""
    folder, slash, name = path.rpartition("/")
    literal = literal_path(name)
    if literal == name:
        # No backslash: before a letter it would mean a class of characters.
        literal = _LETTER.sub(r"[\g<0>]", name, count=1)
    return literal_path(folder) + slash + literal


def wildcard_path(path: str) -> str:
    """Return Spark's form of a pattern in which only `*` and `?` are special."""
    return _SPECIAL_BUT_WILDCARDS.sub(r"\\\g<0>", path)


def has_wildcard(path: str) -> bool:
    """Whether a path is a pattern; False if a file of exactly this name exists."""
    return "*" in path or "?" in path


def unsafe_characters(path: str) -> str:
    """Return the characters of a path, or URL, that Spark's pipelines do not take literally.

    They quote some (a space becomes `%20`, which is another folder), treat others as a
    pattern, a list or the end of the path, and fail for the rest.
    """
    return "".join(dict.fromkeys(_UNSAFE.findall(_SCHEME.sub("", path))))
