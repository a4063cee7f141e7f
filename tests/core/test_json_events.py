"""Events out of JSON: the same as are made of what msgspec decodes, or left to Python."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline._core import IS_COMPILED
from strandline.server.bodies import AppendedEvent, event_of
from strandline.values import Event, InvalidError
from tests.core.plain import JSON, ODD_TEXT, needs_core
from tests.core.test_references import grown

if IS_COMPILED:
    from strandline._core.core import events_of_json

pytestmark = needs_core

MANY = 1000
FEW = settings(max_examples=300, deadline=None)
EVENT = (
    '{"kind":"a","key":"k","payload":{"n":1,"t":["x",null,true,1.5]},"headers":{"b":"2","a":"1"}}'
)
#: What common writers make of events.
COMMON = [
    EVENT,
    f"[{EVENT},{EVENT}]",
    f" [ {EVENT} ,\n\t{EVENT} ]\r\n",
    '{"kind":"a"}',
    '{"payload":null,"kind":"a b~","key":null,"headers":{},"occurred_at":null}',
    '{"kind":"\\u0061","key":"\\u00e9\\n\\"","payload":"\\u00e9\\/\\\\\\u001f\\b"}',
    '{ "kind" : "a" , "payload" : { "a" : [ ] , "b" : { } , "c" : [ 1 , [ 2 ] ] } }',
    '{"kind":"é"}'.replace("é", "e"),
    '{"kind":"a","payload":[0,-1,123456789012345678,0.5,12.50,1.0,2.000,-3.25,0.0001,0.0]}',
    '{"kind":"a","headers":{"z":"é\\n","é":"","b":"1","ba":"2","a":"3"}}',
    '{"kind":"a","payload":"' + "é" * 40 + '","key":"ключ"}',
]
#: What is wrong, or what Python has to look at.
LEFT = [
    "",
    "[",
    "{}",
    "[{}]",
    "null",
    '{"kind":1}',
    '{"kind":""}',
    '{"kind":"a\\n"}',
    '{"kind":"é"}',
    '{"kind":"a",}',
    '{"kind":"a"}}',
    '{"kind":"a"},{"kind":"b"}',
    '[{"kind":"a"},]',
    '[{"kind":"a"}',
    '{"kind":"a","kind":"b"}',
    '{"kind":"a","more":1}',
    '{"kind":"a","key":1}',
    '{"kind":"a","key":"\\ud800"}',
    '{"kind":"a","headers":null}',
    '{"kind":"a","headers":{"a":1}}',
    '{"kind":"a","headers":{"a":"1","a":"2"}}',
    '{"kind":"a","headers":{"strandline.deliver_at":"now"}}',
    '{"kind":"a","headers":{"a\\n":"1"}}',
    '{"kind":"a","occurred_at":"2026-01-01T00:00:00Z"}',
    '{"kind":"a","payload":{"a":1,"a":2}}',
    '{"kind":"a","payload":{"a\\u0062":1,"ab":2}}',
    '{"kind":"a","payload":1e5}',
    '{"kind":"a","payload":-0}',
    '{"kind":"a","payload":-0.0}',
    '{"kind":"a","payload":0.00001}',
    '{"kind":"a","payload":01}',
    '{"kind":"a","payload":1.}',
    '{"kind":"a","payload":.5}',
    '{"kind":"a","payload":-}',
    '{"kind":"a","payload":1234567890123456789}',
    '{"kind":"a","payload":0.1234567890123456}',
    '{"kind":"a","payload":"\\ud83d\\ude00"}',
    '{"kind":"a","payload":"\x01"}',
    '{"kind":"a","payload":"\\x"}',
    '{"kind":"a","payload":nul}',
    '{"kind":"a","payload":' + "[" * 40 + "]" * 40 + "}",
    '{"kind":"a","headers":{' + ",".join(f'"{n}":""' for n in range(9)) + "}}",
    '{"kind":"a","payload":{' + ",".join(f'"{n}":0' for n in range(65)) + "}}",
]


def expected(text: bytes) -> list[bytes] | None:
    """Return the rows of the events that Python decodes; None if it refuses one."""
    try:
        is_list = text.lstrip()[:1] == b"["
        kind: Any = list[AppendedEvent] if is_list else AppendedEvent
        found = msgspec.json.decode(text, type=kind)
        events: list[Any] = [event_of(each) for each in (found if is_list else [found])]
        return [each.stored_row() for each in events]
    except (msgspec.MsgspecError, ValueError, RecursionError, InvalidError):
        return None


def rows(text: bytes) -> list[bytes] | None:
    """Return the rows of the events that the core decodes; None if it leaves them to Python."""
    found = events_of_json(text, MANY)
    return None if found is NotImplemented else [each.stored_row() for each in found]


@pytest.mark.parametrize("text", COMMON)
def test_common_bodies_need_no_python(text: str) -> None:
    assert rows(text.encode()) == expected(text.encode())
    assert rows(text.encode()) is not None


@pytest.mark.parametrize("text", LEFT)
def test_what_is_wrong_or_rare_is_left_to_python(text: str) -> None:
    assert rows(text.encode(errors="surrogatepass")) is None


@pytest.mark.parametrize("content", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80"])
def test_what_is_no_utf8_is_left_to_python(content: bytes) -> None:
    text = b'{"kind":"a","%b":"%b"}'
    assert rows(text % (b"key", content)) is None
    assert rows(text % (b"payload", content)) is None
    assert rows(b'{"kind":"a","headers":{"a":"%b"}}' % content) is None


def test_an_event_has_what_the_body_says() -> None:
    found = events_of_json(EVENT.encode(), 1)

    assert found == [
        Event("a", {"n": 1, "t": ["x", None, True, 1.5]}, key="k", headers={"a": "1", "b": "2"})
    ]
    assert [each.kind for each in events_of_json(b"[]", 0)] == []


def test_more_than_so_many_are_left_to_python() -> None:
    assert len(events_of_json(f"[{EVENT},{EVENT}]".encode(), 2)) == 2
    assert events_of_json(f"[{EVENT},{EVENT}]".encode(), 1) is NotImplemented


@pytest.mark.slow
@FEW
@given(
    payloads=st.lists(JSON, max_size=3),
    key=st.none() | ODD_TEXT,
    headers=st.dictionaries(ODD_TEXT, ODD_TEXT, max_size=5),
    spaced=st.booleans(),
    escaped=st.booleans(),
)
def test_whatever_a_writer_makes_of_events_is_the_same(
    payloads: list[object], key: str | None, headers: dict[str, str], spaced: bool, escaped: bool
) -> None:
    made = [{"kind": "a", "payload": each, "key": key, "headers": headers} for each in payloads]
    separators = None if spaced else (",", ":")
    try:
        text = json.dumps(made, ensure_ascii=escaped, separators=separators).encode()
    except (TypeError, ValueError):
        return
    found = rows(text)
    assert found is None or found == expected(text)


@pytest.mark.slow
@FEW
@given(number=st.decimals(-(10**12), 10**12, places=5) | st.integers(-(10**19), 10**19))
def test_numbers_are_the_same(number: object) -> None:
    text = b'{"kind":"a","payload":%b}' % str(number).encode()
    found = rows(text)
    assert found is None or found == expected(text)


@pytest.mark.slow
def test_no_block_is_left_behind() -> None:
    texts = [each.encode(errors="surrogatepass") for each in COMMON + LEFT]
    assert grown(lambda: [rows(each) for each in texts], 300) < 50
