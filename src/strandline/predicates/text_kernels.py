"""Computes functions of text on columns."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strandline.predicates.letter_case import lowered, uppered
from strandline.predicates.node import Node
from strandline.predicates.pattern import matcher
from strandline.predicates.rowwise import Kernel, each_row

_call: Final = pc.call_function
_TEXT: Final = pa.string()
_JOIN: Final = pc.JoinOptions(null_handling="emit_null")
_NOTHING: Final = pa.scalar("")


def _change_case(ascii_kernel: str, change: Callable[[str], str], texts: Any) -> Any:
    if _call("all", [_call("string_is_ascii", [texts])]).as_py() is not False:
        return _call(ascii_kernel, [texts])
    return pa.array(
        [None if text is None else change(text) for text in texts.to_pylist()], pa.string()
    )


def _searching(name: str, test: Callable[[str, str], bool]) -> Callable[[Node], Kernel]:
    """Return a builder of text searches, which use Arrow's kernel for literals."""

    def built(node: Node) -> Kernel:
        wanted = node.inputs[1]
        if not wanted.is_literal:
            return each_row(test, pa.bool_())
        options = pc.MatchSubstringOptions(wanted.detail)
        return lambda texts, _: _call(name, [texts], options)

    return built


def _like(node: Node) -> Kernel:
    return matcher(node.detail)


def _rlike(node: Node) -> Kernel:
    options = pc.MatchSubstringOptions(node.detail)
    return lambda texts: _call("match_substring_regex", [texts], options)


def _substring(node: Node) -> Kernel:
    _, first, *count = node.inputs
    is_known = first.is_literal and all(each.is_literal and each.detail >= 0 for each in count)
    if is_known and first.detail > 0:
        start = first.detail - 1
        stop = start + count[0].detail if count else None
        options = pc.SliceOptions(start, stop)
        return lambda texts, *_: _call("utf8_slice_codeunits", [texts], options)
    return each_row(_sliced, _TEXT)


def _sliced(text: str, first: int, count: int = 2**31 - 1) -> str:
    start = first - 1 if first > 0 else first and len(text) + first
    # The end is counted from the requested start, even if that is before the text.
    end = min(start + count, len(text))
    return text[max(start, 0) : max(end, 0)]


def _trim(node: Node) -> Kernel:
    kernel, strip = {
        "trim": ("utf8_trim", str.strip),
        "ltrim": ("utf8_ltrim", str.lstrip),
        "rtrim": ("utf8_rtrim", str.rstrip),
    }[node.op]
    if len(node.inputs) > 1 and not node.inputs[1].is_literal:
        return each_row(strip, _TEXT)
    # By default only spaces, and no other white space.
    options = pc.TrimOptions(node.inputs[1].detail if len(node.inputs) > 1 else " ")
    return lambda texts, *_: _call(kernel, [texts], options)


def _concat(*texts: Any) -> Any:
    return _call("binary_join_element_wise", [*texts, _NOTHING], _JOIN)


def _replace(node: Node) -> Kernel:
    wanted = node.inputs[1]
    other = node.inputs[2] if len(node.inputs) > 2 else None  # noqa: PLR2004
    is_known = wanted.is_literal and wanted.detail and (other is None or other.is_literal)
    if not is_known:
        return each_row(_replaced, _TEXT)
    options = pc.ReplaceSubstringOptions(wanted.detail, "" if other is None else other.detail)
    return lambda texts, *_: _call("replace_substring", [texts], options)


def _replaced(text: str, wanted: str, other: str = "") -> str:
    return text.replace(wanted, other) if wanted else text


PLAIN: Final[dict[str, Kernel]] = {
    "lower": partial(_change_case, "ascii_lower", lowered),
    "upper": partial(_change_case, "ascii_upper", uppered),
    "length": lambda a: _call("utf8_length", [a]),
    "concat": _concat,
    # Arrow counts bytes.
    "instr": each_row(lambda text, part: text.find(part) + 1, pa.int32()),
}

BUILT: Final[dict[str, Callable[[Node], Kernel]]] = {
    "like": _like,
    "rlike": _rlike,
    "startswith": _searching("starts_with", str.startswith),
    "endswith": _searching("ends_with", str.endswith),
    "contains": _searching("match_substring", str.__contains__),
    "substring": _substring,
    **dict.fromkeys(("trim", "ltrim", "rtrim"), _trim),
    "replace": _replace,
}
