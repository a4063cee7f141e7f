"""A predicate as Spark SQL on the columns of `format("strandline")`."""

import re
from typing import Final

from strandline.predicates.building import Looked
from strandline.predicates.checking import CheckedPredicate
from strandline.predicates.sql_type import DATE, SqlType
from strandline.predicates.steps import spark_path
from strandline.values.instants import datetime_at

_NOW: Final = re.compile(r"(?:current_timestamp|current_date|now)(?:\s*\(\s*\))?", re.IGNORECASE)
_NAME: Final = re.compile(r"`[^`]*`|\w+")


def spark_sql(text: str, checked: CheckedPredicate, now_us: int) -> str:
    """Return the text with paths into JSON and the current time replaced.

    It may end in a comment, so a line break follows.
    """
    parts: dict[int, tuple[int, str]] = {}
    for start, name in checked.renamed.items():
        parts[start] = _end(_NAME, text, start), name
    for start, looked in checked.looked.items():
        place = checked.places.get(start)
        end = _end(_NAME, text, start) if place is None else place.end + 1
        parts[start] = end, _looking(looked)
    for start, kind in checked.bound.items():
        parts[start] = _end(_NOW, text, start), _moment(kind, now_us)
    found: list[str] = []
    at = 0
    for start, (end, written) in sorted(parts.items()):
        found += text[at:start], written
        at = end
    return "".join((*found, text[at:], "\n" * ("--" in text)))


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    assert found is not None
    return found.end()


def _looking(looked: Looked) -> str:
    function = "try_variant_get" if looked.is_try else "variant_get"
    path = spark_path(looked.path)
    assert path is not None
    quoted = path.replace("\\", "\\\\").replace("'", "\\'")
    return f"{function}(try_parse_json(`{looked.column}`), '{quoted}', '{looked.type}')"


def _moment(kind: SqlType, now_us: int) -> str:
    now = datetime_at(now_us)
    if kind is DATE:
        return f"DATE '{now:%Y-%m-%d}'"
    return f"TIMESTAMP '{now:%Y-%m-%d %H:%M:%S.%f}Z'"
