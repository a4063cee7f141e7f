"""Which values of a payload are stored as something else, and that no other is."""

import enum
from collections import OrderedDict, deque
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

import msgspec
import pytest

from strandline.values import Event, InvalidError


class Colour(enum.IntEnum):
    RED = 1


class Size(enum.StrEnum):
    SMALL = "s"


class Pair(NamedTuple):
    left: int
    right: int


class OwnText(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        ({"colour": Colour.RED}, {"colour": 1}),
        ([Size.SMALL], ["s"]),
        ({Size.SMALL: 1}, {"s": 1}),
        (OrderedDict(a=1), {"a": 1}),
    ],
)
def test_these_conversions_of_a_payload_are_made(given: object, stored: object) -> None:
    payload = Event("k", given).payload

    assert payload == stored
    assert type(payload) is type(stored)
    assert "a tuple comes back as a list" in Path("docs/trade-offs.md").read_text()


@pytest.mark.parametrize(
    "given",
    [
        *({1}, frozenset(), range(2), b"x", bytearray(b"x"), deque([1])),
        *(Decimal(1), Fraction(1, 2), 1j, UUID(int=1), date(2020, 1, 1), timedelta(1)),
        *(MappingProxyType({"a": 1}), {1: 2}, {Colour.RED: 1}, {True: 1}, {None: 1}),
        *(OwnText("x"), object(), int, len, msgspec.UNSET),
    ],
    ids=lambda given: type(given).__name__,
)
def test_no_other_conversion_of_a_payload_is_made(given: object) -> None:
    with pytest.raises(InvalidError):
        Event("k", {"a": [given]})
