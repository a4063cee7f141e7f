"""Events: every reader gets the values that were given, or they are refused."""

import copy
import dataclasses
import pickle
import uuid
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.values import CorruptError, Event, InvalidError

CLEAN_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | CLEAN_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(CLEAN_TEXT, inner),
)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def stored(event: Event) -> Event:
    return Event.load(
        event.kind, event.payload_json, event.key, event.headers_json, event.occurred_at_us
    )


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_an_event_needs_only_a_kind() -> None:
    event = Event("order.created")

    assert event.kind == "order.created"
    assert event.payload is None
    assert event.payload_json == b"null"
    assert event.key is None
    assert event.headers == {}
    assert event.occurred_at is None


def test_an_event_keeps_all_its_parts() -> None:
    event = Event(
        "order.created", {"id": 17}, key="c-9", headers={"b": "2", "a": "1"}, occurred_at=MOMENT
    )

    assert event.payload == {"id": 17}
    assert event.payload_json == b'{"id":17}'
    assert event.key == "c-9"
    assert list(event.headers.items()) == [("a", "1"), ("b", "2")]
    assert event.headers_json == b'{"a":"1","b":"2"}'
    assert event.occurred_at == MOMENT


@pytest.mark.slow
@given(JSON)
def test_any_json_payload_comes_back_with_its_types(payload: object) -> None:
    event = Event("k", payload)

    assert repr(event.payload) == repr(payload)
    assert repr(stored(event).payload) == repr(payload)


@pytest.mark.slow
@given(CLEAN_TEXT, st.dictionaries(CLEAN_TEXT, CLEAN_TEXT))
def test_any_key_and_headers_come_back(key: str, headers: dict[str, str]) -> None:
    event = Event("k", key=key, headers=headers)

    assert (stored(event).key, stored(event).headers) == (key, headers)
    assert list(event.headers) == sorted(headers)
    assert stored(event) == event


def test_changing_what_was_passed_in_changes_nothing() -> None:
    payload, headers = {"items": [1]}, {"a": "1"}
    event = Event("k", payload, headers=headers)

    payload["items"].append(2)
    headers["a"] = "2"

    assert event.payload == {"items": [1]}
    assert event.payload_json == b'{"items":[1]}'
    assert event.headers == {"a": "1"}


def test_an_event_cannot_be_changed() -> None:
    event = Event("k", headers={"a": "1"})

    for name in ("kind", "payload", "headers", "anything"):
        with pytest.raises(AttributeError):
            setattr(event, name, "x")
    with pytest.raises(TypeError):
        event.headers["a"] = "2"  # type: ignore[index]
    with pytest.raises(TypeError):
        hash(event)


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        {1: "a"},
        {None: 1},
        {True: 1},
        {1.5: 1},
        {("a",): 1},
        {b"a": 1},
        "\ud800",
        {"\udc00": 1},
        10**5000,
        b"bytes",
        {1, 2},
        Decimal("1.5"),
        MOMENT,
        date(2026, 1, 1),
        uuid.UUID(int=1),
        Point(1),
        object(),
        print,
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"a": [None, (v,)]}], ids=["bare", "deep"])
def test_a_payload_that_would_not_come_back_is_refused(value: object, wrap: Any) -> None:
    with pytest.raises(InvalidError):
        Event("k", wrap(value))


def test_a_refusal_says_where_in_the_payload_the_trouble_is() -> None:
    with pytest.raises(InvalidError, match=r"path='\$\.items\[1\]\.price'"):
        Event("k", {"items": [{"price": 1.0}, {"price": float("nan")}]})


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ((1, (2,)), [1, [2]]),
        ({"a": (None,)}, {"a": [None]}),
        (OrderedDict(a=1), {"a": 1}),
        (Colour.RED, "red"),
        ({Colour.RED: Colour.RED}, {"red": "red"}),
        (2**64, 2**64),
        (-(2**63) - 1, -(2**63) - 1),
        ({"null": "null", "x": None}, {"null": "null", "x": None}),
    ],
)
def test_what_merely_looks_different_is_read_as_json(value: object, read: object) -> None:
    event = Event("k", value)

    assert event.payload == read
    assert type(event.payload) is type(read)


def test_a_payload_that_contains_itself_is_refused() -> None:
    cycle: list[object] = []
    cycle.append(cycle)

    with pytest.raises(InvalidError, match="contains itself"):
        Event("k", cycle)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [129, 500, 100_000])
def test_a_payload_nested_beyond_the_limit_is_refused(depth: int) -> None:
    with pytest.raises(InvalidError, match="nests too deeply"):
        Event("k", nested(depth))


def test_nesting_up_to_the_limit_is_fine_beside_any_number_of_brackets() -> None:
    payload = {
        "folder": "C:\\",
        "deep": nested(127),
        "wide": [{} for _ in range(500)],
        "text": '[[[{\\"' * 500,
    }

    assert Event("k", payload).payload == payload


def test_brackets_in_text_do_not_hide_nesting() -> None:
    with pytest.raises(InvalidError, match="nests too deeply"):
        Event("k", ["]" * 300, '\\"]]]' * 100, nested(128)])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("", "empty"),
        ("x" * 201, "too long"),
        ("é" * 101, "too long"),
        ("a\nb", "control"),
        ("\x1b[2J", "control"),
        ("a\x85", "control"),
        ("\ud800", "surrogate"),
        (None, "not text"),
        (b"k", "not text"),
    ],
)
def test_a_bad_kind_is_refused_when_made_and_when_loaded(kind: Any, reason: str) -> None:
    with pytest.raises(InvalidError, match=reason):
        Event(kind)
    with pytest.raises(InvalidError, match=reason):
        Event.load(kind, b"null", None, b"{}", None)


@pytest.mark.parametrize("kind", ["k", "x" * 200, "é" * 100, "注文 作成"])
def test_a_kind_is_any_readable_text(kind: str) -> None:
    assert Event(kind).kind == kind


@pytest.mark.parametrize(
    "headers",
    [
        {"a": 1},
        {"a": None},
        {1: "a"},
        {"a": b"x"},
        {"\ud800": "x"},
        {"a": "\ud800"},
        [],
        "ab",
        0,
        None,
    ],
)
def test_headers_that_are_not_text_to_text_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidError):
        Event("k", headers=headers)


def test_headers_may_be_any_mapping() -> None:
    given = Event("k", headers={"a": "1"})

    assert Event("k", headers=given.headers) == given
    assert Event("k", headers=MappingProxyType({})) == Event("k")


@pytest.mark.parametrize("key", [7, b"k", "\ud800"])
def test_a_bad_key_is_refused(key: Any) -> None:
    with pytest.raises(InvalidError):
        Event("k", key=key)


@pytest.mark.slow
@given(
    st.datetimes(
        min_value=datetime(1, 1, 2),
        max_value=datetime(9999, 12, 30),
        timezones=st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone),
    )
)
def test_a_time_keeps_its_microseconds_in_utc(moment: datetime) -> None:
    read = stored(Event("k", occurred_at=moment)).occurred_at

    assert read == moment
    assert read is not None
    assert read.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 1),
        date(2026, 1, 1),
        1_700_000_000,
        "2026-01-01T00:00:00Z",
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    ],
)
def test_a_time_without_a_zone_or_out_of_range_is_refused(moment: Any) -> None:
    with pytest.raises(InvalidError):
        Event("k", occurred_at=moment)


@pytest.mark.parametrize(
    "payload_json",
    [b"", b"{", b"nul", b"{} x", b'"\xff"', b"NaN", b"[" * 100_000 + b"]" * 100_000],
    ids=lambda data: data[:6].decode(errors="replace"),
)
def test_stored_json_that_cannot_be_decoded_is_corrupt_when_touched(payload_json: bytes) -> None:
    event = Event.load("k", payload_json, None, b"{}", None)

    assert event.payload_json == payload_json
    with pytest.raises(CorruptError, match="payload"):
        _ = event.payload


@pytest.mark.parametrize("headers_json", [b"", b"[]", b'{"a":1}', b'{"a":null}', b"null"])
def test_stored_headers_that_cannot_be_decoded_are_corrupt_when_touched(
    headers_json: bytes,
) -> None:
    event = Event.load("k", b"null", None, headers_json, None)

    with pytest.raises(CorruptError, match="headers"):
        _ = event.headers


def test_a_stored_time_out_of_range_is_corrupt_when_touched() -> None:
    event = Event.load("k", b"null", None, b"{}", 2**63 - 1)

    with pytest.raises(CorruptError, match="time"):
        _ = event.occurred_at


def test_the_payload_is_decoded_once() -> None:
    event = stored(Event("k", {"a": 1}))

    assert event.payload is event.payload


def test_events_that_mean_the_same_are_equal() -> None:
    event = Event("k", {"a": 1, "b": [2]}, headers={"x": "1", "y": "2"})

    assert event == Event("k", {"b": [2], "a": 1}, headers={"y": "2", "x": "1"})
    assert event == Event.load("k", b'{ "b": [2], "a": 1 }', None, b'{"y":"2","x":"1"}', None)


@pytest.mark.parametrize(
    "other",
    [
        Event("other", {"a": 1}, key="x"),
        Event("k", {"a": 2}, key="x"),
        Event("k", {"a": True}, key="x"),
        Event("k", {"a": 1.0}, key="x"),
        Event("k", {"a": 1}),
        Event("k", {"a": 1}, key="x", headers={"h": "1"}),
        Event("k", {"a": 1}, key="x", occurred_at=MOMENT),
        "k",
    ],
)
def test_events_that_mean_something_else_are_not_equal(other: object) -> None:
    assert Event("k", {"a": 1}, key="x") != other


def test_an_event_survives_pickling_and_copying() -> None:
    event = Event("k", {"a": [1]}, key="x", headers={"h": "1"}, occurred_at=MOMENT)

    assert pickle.loads(pickle.dumps(event)) == event
    assert copy.copy(event) == event
    assert copy.deepcopy(event) == event


def test_an_event_matches_by_kind_and_payload() -> None:
    match Event("order.created", {"id": 17}):
        case Event("order.created", {"id": number}):
            assert number == 17
        case _:
            pytest.fail("the pattern did not match")


def test_the_repr_is_short_and_harmless_to_a_terminal() -> None:
    event = Event("\u202ekind", {"text": "\x1b[31m\x7f\u202e" + "x" * 5000}, key="\x1bkey")

    assert repr(event).isascii()
    assert repr(event).isprintable()
    assert len(repr(event)) < 300


def test_the_repr_shows_what_there_is() -> None:
    event = Event("k", {"id": 17}, key="c-9", headers={"a": "1"}, occurred_at=MOMENT)

    assert repr(Event("k")) == "Event('k', 'null')"
    assert repr(event) == (
        "Event('k', '{\"id\":17}', key='c-9', headers='{\"a\":\"1\"}', "
        "occurred_at_us=1767323045678901)"
    )


def test_its_parts_make_the_same_event() -> None:
    occurred_at = datetime(2024, 5, 1, tzinfo=UTC)
    event = Event("a", [1], key="k", headers={"h": "1"}, occurred_at=occurred_at)

    assert Event.load(*event.parts()) == event


def test_the_time_an_event_occurred_is_the_callers_and_none_unless_given() -> None:
    """E2: unlike there, it does not default to now; the record's timestamp says when it came."""
    assert Event("placed").occurred_at is None
