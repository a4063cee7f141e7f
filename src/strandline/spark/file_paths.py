"""Paths as Spark takes them: it reads every one that it loads from as a pattern."""

import re
from typing import Final

_SPECIAL: Final = re.compile(r"[\\*?\[\]{}]")
_SPECIAL_BUT_WILDCARDS: Final = re.compile(r"[\\\[\]{}]")


def literal_path(path: str) -> str:
    """Return what Spark takes for this very path, whatever characters are in it."""
    return _SPECIAL.sub(r"\\\g<0>", path)


def one_file_path(path: str) -> str:
    """Return what a stream takes for this very file; without a pattern it reads folders."""
    folder, slash, name = path.rpartition("/")
    literal = literal_path(name)
    escaped = literal if literal != name else "\\" + name
    return literal_path(folder) + slash + escaped


def wildcard_path(path: str) -> str:
    """Return what Spark takes for a pattern in which `*` and `?` alone are special."""
    return _SPECIAL_BUT_WILDCARDS.sub(r"\\\g<0>", path)


def has_wildcard(path: str) -> bool:
    """Whether a path is a pattern, unless there is a file of that very name."""
    return "*" in path or "?" in path
