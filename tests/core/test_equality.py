"""The core and plain Python: the same bytes, values and errors for any input."""

import struct
from importlib import import_module
from typing import Any

import google_crc32c
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.values import Event, InvalidError
from strandline.values._json import decode, encode_exact
from strandline.values._plain_event import Event as PlainEvent
from tests.core.plain import JSON, arguments, made, needs_core, plain_columns, plain_row

pytestmark = needs_core


def core() -> Any:
    return import_module("strandline._core.core")


@pytest.mark.slow
@given(JSON)
def test_json_is_encoded_to_the_same_bytes_or_left_to_python(value: object) -> None:
    try:
        expected = encode_exact(value)
    except InvalidError:
        expected = None

    found = core().encode(value)

    assert found is NotImplemented or found == expected


@pytest.mark.slow
@given(JSON)
def test_stored_json_is_decoded_to_the_same_value(value: object) -> None:
    try:
        stored = encode_exact(value)
    except InvalidError:
        return

    found = core().decode(stored)

    assert found is NotImplemented or repr(found) == repr(decode(stored))


@given(st.binary() | st.text('{}[]":,\\ \t0123456789.eE+-truefalsnu/bxA').map(str.encode))
def test_bytes_that_are_no_json_are_never_decoded(text: bytes) -> None:
    try:
        expected = repr(decode(text))
    except (ValueError, msgspec.MsgspecError):
        expected = "none"

    found = core().decode(text)

    assert found is NotImplemented or repr(found) == expected


@given(st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("d", struct.pack("Q", bits))[0]))
def test_any_float_comes_back_as_it_was(value: float) -> None:
    text = core().encode(value)

    if text is not NotImplemented:
        assert text == encode_exact(value)
        assert core().decode(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"[1,]", b'{"a" 1}', b"01", b"-", b"1.", b".5", b'"\x01"', b'"\\x"', b"tru"),
        *(b"nullx", b'{"a":1}}', b'"\xff"', b"1e", b"[1 2]", b'"abc', b"+1", b"NaN", b"1e999"),
        *(b'"\\ud800"', b"[" * 300 + b"]" * 300, b'{"a":1,}', b"{1:2}", b'"\\u12g4"', b'"\\u12'),
    ],
)
def test_what_is_odd_is_left_to_python(text: bytes) -> None:
    assert core().decode(text) is NotImplemented


@pytest.mark.slow
@given(arguments())
def test_an_event_has_the_same_parts_and_is_refused_with_the_same_error(given: Any) -> None:
    ours, plain = made(Event, given), made(PlainEvent, given)

    if isinstance(plain, tuple):
        assert ours == plain
        return
    assert ours.parts() == plain.parts()
    assert (ours.headers, repr(ours.payload)) == (plain.headers, repr(plain.payload))
    assert (repr(ours), ours.occurred_at) == (repr(plain), plain.occurred_at)
    assert Event.load(*plain.parts()) == ours
    assert ours.stored_row() == plain_row(plain.parts())


@pytest.mark.slow
@given(st.lists(arguments(), min_size=1, max_size=6), st.integers(1, 30))
def test_columns_are_the_bytes_that_pyarrow_writes(each: list[Any], times: int) -> None:
    events = [event for given in each if isinstance(event := made(Event, given), Event)] * times

    if events:
        assert core().encode_columns(events) == plain_columns(events)


@given(st.binary(max_size=9), st.integers(0, 7_000), st.integers(0, 2**32 - 1))
def test_a_checksum_is_that_of_the_library(part: bytes, length: int, seed: int) -> None:
    data = (part * (length // max(1, len(part)) + 1))[:length]

    assert core().crc32c(seed, data) == google_crc32c.extend(seed, data)


@pytest.mark.parametrize(
    "moment", [-(2**63), -(2**31) - 1, -129, -33, -32, 0, 127, 2**32, 2**63 - 1]
)
def test_any_stored_time_is_written_as_msgspec_does(moment: int) -> None:
    parts = ("k", b"1", None, b"{}", moment)

    assert Event.load(*parts).stored_row() == plain_row(parts)  # type: ignore[attr-defined]
