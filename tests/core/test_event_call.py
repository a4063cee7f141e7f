"""Every way to construct an event gives the same event, or the same error."""

from functools import partial
from typing import Any

import pytest

from strandline.values import Event
from strandline.values._plain_event import Event as PlainEvent

GIVEN: dict[str, Any] = {"payload": {"n": 1}, "key": "k", "headers": {"a": "b"}}


@pytest.mark.parametrize("event", [Event, PlainEvent])
def test_every_way_to_call_gives_the_same_event(event: Any) -> None:
    expected = event("order", {"n": 1}, key="k", headers={"a": "b"}).parts()

    ways = [
        event(kind="order", **GIVEN),
        event("order", **GIVEN),
        event("order", {"n": 1}, **{each: GIVEN[each] for each in (b"key".decode(), "headers")}),
        partial(event, key="k", headers={"a": "b"})("order", {"n": 1}),
        event.__call__("order", {"n": 1}, headers={"a": "b"}, key="k"),
    ]

    assert [each.parts() for each in ways] == [expected] * len(ways)


@pytest.mark.parametrize("event", [Event, PlainEvent])
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), {}),
        (("order", 1, "k"), {}),
        (("order",), {"kind": "order"}),
        (("order", 1), {"payload": 1}),
        (("order",), {"keys": "k"}),
    ],
)
def test_arguments_that_do_not_fit_are_a_type_error(
    event: Any, given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        event(*given, **named)


def test_only_text_names_arguments() -> None:
    named: Any = {1: 2}

    with pytest.raises(TypeError):
        Event("order", **named)
