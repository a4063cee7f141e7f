"""Paths as Spark takes them: it reads every one that it loads from as a pattern."""

import re
from typing import Final

_SPECIAL: Final = re.compile(r"[\\*?\[\]{}]")
_LETTER: Final = re.compile(r"[^\W_]")
_SCHEME: Final = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*:(?=/)")
_UNSAFE: Final = re.compile(r"[^\w/.~!$&'()+=@-]")
_SPECIAL_BUT_WILDCARDS: Final = re.compile(r"[\\\[\]{}]")


def literal_path(path: str) -> str:
    """Return what Spark takes for this very path, whatever characters are in it."""
    return _SPECIAL.sub(r"\\\g<0>", path)


def one_file_path(path: str) -> str:
    """Return what a stream takes for this very file; without a pattern it reads folders."""
    folder, slash, name = path.rpartition("/")
    literal = literal_path(name)
    if literal == name:
        # No backslash: before a letter it would be taken for a class of characters.
        literal = _LETTER.sub(r"[\g<0>]", name, count=1)
    return literal_path(folder) + slash + literal


def wildcard_path(path: str) -> str:
    """Return what Spark takes for a pattern in which `*` and `?` alone are special."""
    return _SPECIAL_BUT_WILDCARDS.sub(r"\\\g<0>", path)


def has_wildcard(path: str) -> bool:
    """Whether a path is a pattern, unless there is a file of that very name."""
    return "*" in path or "?" in path


def unsafe_characters(path: str) -> str:
    """Return the characters of a path, or URL, that Spark's pipelines do not take as they are.

    They quote some (a space becomes `%20`, in a folder of its own), take others for a
    pattern, a list or the end of the path, and fail for the rest.
    """
    return "".join(dict.fromkeys(_UNSAFE.findall(_SCHEME.sub("", path))))
