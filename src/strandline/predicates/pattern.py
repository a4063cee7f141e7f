"""A LIKE pattern, parsed once, and matched by the cheapest possible kernel."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.predicates.dialect import PATTERN_CHARS_MAX, PATTERN_WILDCARDS_MAX

ANY: Final = "%"
ONE: Final = "_"

Piece = tuple[bool, str]
"""A wildcard, or a literal text."""


def pieces(pattern: str, escape: str) -> tuple[Piece, ...]:
    """Parse a pattern; ValueError if Spark refuses it, or if it is too long."""
    if len(escape) != 1:
        raise ValueError("an escape is one character")
    if len(pattern) > PATTERN_CHARS_MAX:
        raise ValueError(f"a pattern has at most {PATTERN_CHARS_MAX} characters")
    found: list[Piece] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped not in {ANY, ONE, escape}:
                raise ValueError("an escape stands before %, _ or itself")
            _join(found, escaped)
        elif character in {ANY, ONE}:
            # Several % in a row are treated as one, so that they cost no more.
            if character == ONE or found[-1:] != [(True, ANY)]:
                found.append((True, character))
        else:
            _join(found, character)
    if sum(is_wildcard for is_wildcard, _ in found) > PATTERN_WILDCARDS_MAX:
        raise ValueError(f"a pattern has at most {PATTERN_WILDCARDS_MAX} wildcards")
    return tuple(found)


def plain_search(parts: tuple[Piece, ...]) -> tuple[str, str] | None:
    """Return the kernel and its text, if no regular expression is needed."""
    match parts:
        case ():
            return "equal", ""
        case ((False, text),):
            return "equal", text
        case ((False, text), (True, "%")):
            return "starts_with", text
        case ((True, "%"), (False, text)):
            return "ends_with", text
        case ((True, "%"), (False, text), (True, "%")):
            return "match_substring", text
    return None


def matcher(parts: tuple[Piece, ...]) -> Callable[[pa.Array], pa.Array]:
    """Return a matcher of texts."""
    plain = plain_search(parts)
    if plain is None:
        middle = "".join(_expression(piece) for piece in parts)
        return _search("match_substring_regex", rf"(?s)\A(?:{middle})\z")
    name, text = plain
    return _kernel(name, pa.scalar(text)) if name == "equal" else _search(name, text)


def _join(found: list[Piece], character: str) -> None:
    if found and not found[-1][0]:
        found[-1] = (False, found[-1][1] + character)
    else:
        found.append((False, character))


def _expression(piece: Piece) -> str:
    is_wildcard, text = piece
    if is_wildcard:
        return ".*" if text == ANY else "."
    return "".join(each if each.isalnum() else rf"\x{{{ord(each):x}}}" for each in text)


def _kernel(name: str, value: pa.Scalar) -> Callable[[pa.Array], pa.Array]:
    return lambda texts: pc.call_function(name, [texts, value])


def _search(name: str, text: str) -> Callable[[pa.Array], pa.Array]:
    options: Any = pc.MatchSubstringOptions(text)
    return lambda texts: pc.call_function(name, [texts], options)
