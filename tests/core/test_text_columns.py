"""Columns of texts, with the core and without: the same, for any texts."""

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline._core import IS_COMPILED
from strandline.scans import header_maps as maps_module
from strandline.scans.header_maps import header_maps
from strandline.spark.sink import fingerprint as prints_module
from strandline.spark.sink.fingerprint import fingerprint
from strandline.values import Event
from tests.core.plain import JSON, TEXT, needs_core
from tests.core.test_references import grown

if IS_COMPILED:
    from strandline._core.core import are_json, header_columns, text_numbers

pytestmark = needs_core

HEADERS = st.dictionaries(TEXT, TEXT, max_size=40)
FEW = settings(max_examples=200, deadline=None)
#: JSON that people have, and what is none; the core may leave any of it to Python.
NO_JSON = ["", " ", "{", "{]", "[1,]", '{"a"}', '{"a":}', "01", "1.", ".5", "+1", "1e", "nul"]
NO_JSON += ["1 2", "NaN", "Infinity", '"', '"\\x"', '"\\u12"', '"\n"', "'a'", "1e999", "[1}"]
COMMON = ["{}", "[]", "null", "true", "false", "0", "-1", "12.50", "1e5", '"é"', " [ 1 , 2 ] "]
COMMON += ['{"id":1,"tags":["a","\\n\\u00e9"],"deep":{"a":[[],{}]},"none":null}', "9" * 18]


def column(texts: list[str], first: int = 0) -> tuple[Any, ...]:
    """Return the texts from `first` on, as the core takes them."""
    made = pa.array(texts, pa.string()).cast(pa.large_binary()).slice(first)
    _, offsets, content = made.buffers()
    return offsets, made.offset, len(made), content or b""


def without_core(module: Any, call: Any, *given: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "IS_COMPILED", False)
        return call(*given)


@pytest.mark.slow
@FEW
@given(
    texts=st.lists(st.none() | TEXT | st.text(min_size=1020, max_size=1030)),
    first=st.integers(0, 3),
)
def test_fingerprints_are_the_same(texts: list[str | None], first: int) -> None:
    rows = pa.record_batch({"s": pa.array(texts, pa.string())}).slice(first)

    assert fingerprint(rows) == without_core(prints_module, fingerprint, rows)


def test_texts_of_each_length_have_the_same_number() -> None:
    rows = pa.record_batch({"s": ["abcdefghijklmnopq"[:n] * m for n in range(18) for m in (1, 60)]})

    assert fingerprint(rows) == without_core(prints_module, fingerprint, rows)


@pytest.mark.slow
@FEW
@given(headers=st.lists(HEADERS, max_size=5), first=st.integers(0, 2))
def test_headers_are_the_same_maps(headers: list[dict[str, str]], first: int) -> None:
    stored = [Event("k", None, headers=each).parts()[3].decode() for each in headers]
    given_ = pa.array(stored, pa.string()).slice(first)
    found = header_maps(given_)

    found.validate(full=True)
    assert found.equals(without_core(maps_module, header_maps, given_))


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"1","a":"2"}',
        '{"a":1}',
        "",
        "{",
        '{"a":"b"',
        '{"a":"b"}{',
        '{"\\ud83d\\ude00":""}',
        "null",
    ],
)
def test_headers_that_are_not_stored_so_are_left_to_python(text: str) -> None:
    assert header_columns(*column(["{}", text])) is NotImplemented


@pytest.mark.slow
@FEW
@given(payload=JSON)
def test_payloads_are_json(payload: object) -> None:
    try:
        text = msgspec.json.encode(payload).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        return
    # A number or a nesting out of the ordinary is left to Python.
    assert not are_json(*column([text, "[1,]"]))
    if are_json(*column([text])):
        msgspec.json.decode(text)


def test_common_json_needs_no_python() -> None:
    assert are_json(*column(COMMON))
    assert are_json(*column(["no json", *COMMON], 1))
    assert are_json(*column(["[" * 100 + "]" * 100]))


@pytest.mark.parametrize("text", [*NO_JSON, "[" * 101 + "]" * 101, "9" * 19, '"\\ud800"'])
def test_what_is_no_json_for_sure_is_not_taken(text: str) -> None:
    assert not are_json(*column([*COMMON, text]))


@pytest.mark.parametrize(
    ("ends", "first", "count"),
    [
        ((0, 9), 0, 1),
        ((-1, 2), 0, 1),
        ((2, 1, 3), 0, 2),
        ((0, 3), 0, 2),
        ((0, 3), 3, 0),
        ((0, 3), -1, 1),
    ],
)
def test_texts_outside_their_content_are_refused(ends: Any, first: int, count: int) -> None:
    offsets = b"".join(each.to_bytes(8, "little", signed=True) for each in ends)
    for call in (text_numbers, are_json, header_columns):
        with pytest.raises(ValueError, match="content"):
            call(offsets, first, count, b"abc")


def test_nothing_is_kept() -> None:
    right, wrong = column(['{"a":"b"}', "{}"]), column(["{}", "{"])

    def call() -> None:
        for given_ in (right, wrong):
            text_numbers(*given_)
            are_json(*given_)
            header_columns(*given_)

    assert grown(call, 1000) < 50
