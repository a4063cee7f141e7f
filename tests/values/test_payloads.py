"""Payloads of Python objects: encoded by an encoder, decoded as a given type."""

import asyncio
import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

import strandline as sl

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
MOMENT = dt.datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=dt.timezone(dt.timedelta(hours=2)))


class Colour(Enum):
    RED = "red"


class Mixed(Enum):
    TWO = 2
    DAY = dt.date(2026, 3, 1)


class Level(IntEnum):
    LOW = 1


@dataclass
class Line:
    product: str
    price: Decimal
    colours: list[Colour] = field(default_factory=list)


@dataclass(frozen=True)
class Order:
    id: UUID
    placed_at: dt.datetime
    due: dt.date
    lines: tuple[Line, ...]


class Payment(msgspec.Struct, tag="payment", rename="camel"):
    order_id: UUID
    paid_at: dt.datetime
    amount: Decimal
    line: Line | None = None


class Customer(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName")
    born: dt.date
    credit: Decimal
    address: dict[str, str] = {}


class Place(TypedDict):
    x: int


def made(kind: str, payload: Any, encoder: Any = sl.as_json) -> sl.Event:
    with sl.open("memory:", encoder=encoder) as log:
        return log.event(kind, payload)


ORDER = Order(ID, MOMENT, dt.date(2026, 3, 2), (Line("tea", Decimal("4.20"), [Colour.RED]),))
PAYMENT = Payment(ID, MOMENT, Decimal("1e3"), Line("tea", Decimal(1)))
CUSTOMER = Customer(fullName="Ada", born=dt.date(1815, 12, 10), credit=Decimal("0.10"))


@pytest.mark.parametrize(
    "value", [ORDER, PAYMENT, CUSTOMER], ids=lambda value: type(value).__name__
)
def test_what_is_written_as_a_class_is_read_as_one(value: Any) -> None:
    event = made("k", value)

    assert event.payload_as(type(value)) == value


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (MOMENT, "2026-03-01T12:00:00.000005+02:00"),
        (dt.date(2026, 3, 1), "2026-03-01"),
        (dt.time(12, 30), "12:30:00"),
        (Decimal("4.20"), "4.20"),
        (ID, str(ID)),
        ([Colour.RED, Mixed.TWO, Mixed.DAY, Level.LOW], ["red", 2, "2026-03-01", 1]),
        ({ID: {Colour.RED: (1, None)}}, {str(ID): {"red": [1, None]}}),
        ({"a": [{"b": Decimal(1)}]}, {"a": [{"b": "1"}]}),
        (
            PAYMENT,
            {
                "type": "payment",
                "orderId": str(ID),
                "paidAt": "2026-03-01T12:00:00.000005+02:00",
                "amount": "1E+3",
                "line": {"product": "tea", "price": "1", "colours": []},
            },
        ),
        (CUSTOMER, {"fullName": "Ada", "born": "1815-12-10", "credit": "0.10", "address": {}}),
        ({"plain": [1, 2.5, "x", True, None]}, {"plain": [1, 2.5, "x", True, None]}),
    ],
)
def test_the_ready_encoder_writes_plain_json(value: Any, stored: Any) -> None:
    assert made("k", value).payload == stored


@pytest.mark.parametrize(
    "value", [MOMENT, Decimal(1), ID, Colour.RED, ORDER, PAYMENT, CUSTOMER, {"deep": [ID]}]
)
def test_nothing_is_encoded_unless_that_is_asked_for(value: Any) -> None:
    with pytest.raises(sl.InvalidError):
        sl.Event("k", value)
    with sl.open("memory:") as log, pytest.raises(sl.InvalidError):
        log.event("k", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [dt.datetime(2026, 1, 1)]}, "time zone"),
        ({"a": [object()]}, "path='$.a[0]' type='object'"),
        ({"a": {1}}, "path='$.a' type='set'"),
        ({"a": b"bytes"}, "type='bytes'"),
        ({1: "x"}, "convert it first"),
        ({Decimal(1): float("nan")}, "NaN"),
        (Order, "type='type'"),
    ],
)
def test_what_the_encoder_does_not_know_is_refused_with_its_place(value: Any, text: str) -> None:
    with pytest.raises(sl.InvalidError) as caught:
        made("k", value)

    assert text in str(caught.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {"id": ID}
    value["self"] = value
    forever: Any = object()

    with pytest.raises(sl.InvalidError, match="nests too deeply"):
        made("k", value)
    with pytest.raises(sl.InvalidError, match="nests too deeply"):
        made("k", forever, lambda each: each)


def test_an_encoder_of_ones_own_is_called_for_what_is_not_json() -> None:
    seen: list[Any] = []

    def encoder(value: Any) -> Any:
        seen.append(value)
        return {"complex": [value.real, value.imag]} if isinstance(value, complex) else ID

    with sl.open("memory:", encoder=lambda value: sl.as_json(encoder(value))) as _:
        pass
    event = made("k", {"a": 1j, "b": 2}, encoder)

    assert event.payload == {"a": {"complex": [0.0, 1.0]}, "b": 2}
    assert seen == [1j]
    with pytest.raises(sl.InvalidError, match="an encoder is a function"):
        sl.open("memory:", encoder="json")  # type: ignore[arg-type]


def test_both_faces_of_a_log_make_events() -> None:
    async def append() -> sl.Record:
        async with sl.open("memory:", encoder=sl.as_json) as log:
            await log.create_topic("orders")
            made = log.event("order.placed", ORDER, key="k", headers={"a": "b"}, occurred_at=MOMENT)
            await log.append("orders", made)
            (record,) = log.blocking.read("orders", 0, 0)
            return record

    record = asyncio.run(append())

    assert record.payload_as(Order) == ORDER
    assert (record.key, record.headers, record.event.occurred_at) == ("k", {"a": "b"}, MOMENT)


def test_a_payload_that_does_not_fit_names_the_record_and_the_reason() -> None:
    with sl.open("memory:") as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("k", {"x": "no number"}))
        (record,) = log.read("orders", 0, 0)

    with pytest.raises(sl.InvalidError) as caught:
        record.payload_as(Place)
    with pytest.raises(sl.InvalidError, match="fullName"):
        record.payload_as(Customer)
    with pytest.raises(sl.InvalidError, match="no payload can be decoded as this type"):
        record.payload_as(7)  # type: ignore[arg-type]

    assert caught.value.fields["offset"] == 0
    assert "Expected `int`, got `str` - at `$.x`" in str(caught.value)
    assert sl.Event("k", {"x": 3}).payload_as(dict[str, int]) == {"x": 3}


def test_a_record_without_an_event_has_no_payload() -> None:
    with sl.open("memory:") as log:
        log.create_topic("raw", value_kind="bytes")
        log.append("raw", b"{}")
        (record,) = log.read("raw", 0, 0)

    with pytest.raises(sl.InvalidError, match="holds no event"):
        record.payload_as(dict)


class Raising:
    """What is no type, and raises whatever it is asked."""

    def __hash__(self) -> int:
        raise RuntimeError("there is no hash")


def test_what_raises_when_it_is_asked_is_no_type_for_a_payload() -> None:
    event = sl.Event("placed", {})

    with pytest.raises(sl.InvalidError, match="no payload can be decoded as this type") as caught:
        event.payload_as(Raising())  # type: ignore[arg-type]

    assert caught.value.fields["type"] == "Raising"
