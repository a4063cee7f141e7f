"""The shop's day: a seeded stream of orders, payments and shipments, and what must come of it.

Late, double and broken ones are in it, as in life. The same plan makes the same day in
every process, so a check knows what was offered without asking.
"""

import math
import random
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import strandline as sl
from examples.demo.plan import DESK_ORDERS, PRODUCERS, Plan

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
DAY_S = 24 * 3600
#: The longest that an event takes to reach us.
LATE_S_MAX = 30 * 60
#: The longest from an order to its payment.
PAYMENT_S_MAX = 15 * 60

_CUSTOMERS = 500
_COUNTRIES = {"DE": 5, "FR": 4, "NL": 3, "PL": 2, "PT": 1}
_CARRIERS = ("north post", "river freight", "two wheels")
_EVENTS_PER_ORDER = 2.8
_EXPRESS, _BROKEN, _PAID, _SHIPPED = 0.20, 0.02, 0.95, 0.90
_LATE, _DOUBLE, _AGAIN = 0.03, 0.03, 0.01

#: How busy the shop is in each hour of the day.
_HOURS = [max(0.08, math.sin((hour - 6) / 18 * math.pi)) for hour in range(24)]
_HOURS[12] *= 1.6
_HOURS[19] *= 2.2
_HOURS[20] *= 1.9


@dataclass(frozen=True, slots=True)
class Offer:
    """One event on its way to the log."""

    id: str
    kind: str
    customer: str
    payload: dict[str, Any]
    occurred_s: float
    """Since midnight."""
    arrives_s: float
    is_express: bool = False
    is_double: bool = False
    """Whether both producers are given it."""
    is_repeated: bool = False
    """Whether its producer tries again, not knowing that it had succeeded."""

    @property
    def producers(self) -> tuple[int, ...]:
        if self.is_double:
            return tuple(range(PRODUCERS))
        return (zlib.crc32(self.customer.encode()) % PRODUCERS,)

    def event(self) -> sl.Event:
        return sl.Event(
            self.kind,
            self.payload,
            key=self.customer,
            headers={"service": "express" if self.is_express else "normal"},
            occurred_at=MIDNIGHT + timedelta(seconds=self.occurred_s),
        )


def day(plan: Plan) -> list[Offer]:
    """Return the events of the day, in the order in which they arrive."""
    chance = random.Random(plan.seed)
    orders = math.ceil(plan.events / _EVENTS_PER_ORDER * 1.1)
    hours = chance.choices(range(24), _HOURS, k=orders)
    placed = sorted(hour * 3600 + chance.random() * 3600 for hour in hours)
    offers: list[Offer] = []
    for number, at_s in enumerate(placed):
        offers += _order(chance, number, at_s)
        if len(offers) >= plan.events:
            break
    offers = offers[: plan.events]
    return sorted(offers, key=lambda offer: offer.arrives_s)


def _order(chance: random.Random, number: int, at_s: float) -> Iterator[Offer]:
    """Yield an order, its payment and its shipment, as far as they happen."""
    customer = f"c-{int(chance.paretovariate(1.1)) % _CUSTOMERS}"
    is_broken = chance.random() < _BROKEN
    cents = int(chance.lognormvariate(8.2, 0.7))
    order = {
        "id": f"o-{number}",
        "order": number,
        "country": chance.choices([*_COUNTRIES], [*_COUNTRIES.values()])[0],
        "cents": "n/a" if is_broken else cents,
        "items": chance.randint(1, 6),
    }
    is_express = chance.random() < _EXPRESS
    yield _offer(chance, "order.placed", customer, order, at_s, is_express=is_express)
    if is_broken or chance.random() >= _PAID:
        return
    at_s += chance.uniform(5, PAYMENT_S_MAX)
    payment = {"id": f"p-{number}", "order": number, "cents": cents, "method": "card"}
    double = chance.random() < _DOUBLE
    yield _offer(chance, "payment.captured", customer, payment, at_s, is_double=double)
    if chance.random() >= _SHIPPED:
        return
    at_s += chance.uniform(1800, 4 * 3600)
    shipment = {"id": f"s-{number}", "order": number, "carrier": chance.choice(_CARRIERS)}
    yield _offer(chance, "shipment.sent", customer, shipment, at_s)


def _offer(
    chance: random.Random,
    kind: str,
    customer: str,
    payload: dict[str, Any],
    at_s: float,
    *,
    is_express: bool = False,
    is_double: bool = False,
) -> Offer:
    late_s = chance.uniform(60, LATE_S_MAX) if chance.random() < _LATE else 0.0
    return Offer(
        *(payload["id"], kind, customer, payload, at_s, at_s + late_s),
        is_express=is_express,
        is_double=is_double,
        is_repeated=not is_double and chance.random() < _AGAIN,
    )


def desk_order(number: int) -> sl.Event:
    """Return an order that a customer places at the desk, and queries at once."""
    payload = {"id": f"d-{number}", "order": -1 - number, "country": "PT", "cents": 1_000 + number}
    return sl.Event("order.placed", payload, key="desk", headers={"service": "normal"})


Hour = tuple[int, str]


@dataclass(slots=True)
class Outcome:
    """What must be found when everything has been done once."""

    ids: set[str] = field(default_factory=set)
    offered: int = 0
    late: int = 0
    express: set[str] = field(default_factory=set)
    dead_lettered: set[str] = field(default_factory=set)
    broken: int = 0
    paid: set[int] = field(default_factory=set)
    revenue: Counter[Hour] = field(default_factory=Counter)
    """In cents, by the hour of the payment and the country."""
    spent: Counter[str] = field(default_factory=Counter)
    """In cents, by customer, of what was ordered."""


def outcome(offers: list[Offer]) -> Outcome:
    """Return what must come of the day, worked out with neither log nor Spark."""
    found = Outcome()
    countries: dict[int, str] = {}
    payments: list[Offer] = []
    for offer in offers:
        found.ids.add(offer.id)
        found.offered += len(offer.producers) + offer.is_repeated
        found.late += offer.arrives_s > offer.occurred_s
        if offer.kind == "payment.captured":
            payments.append(offer)
        elif offer.kind == "order.placed":
            _note_order(found, offer)
            countries[offer.payload["order"]] = offer.payload["country"]
    for offer in payments:
        order = offer.payload["order"]
        if order in countries:
            found.paid.add(order)
            found.revenue[int(offer.occurred_s // 3600), countries[order]] += offer.payload["cents"]
    for number in range(DESK_ORDERS):
        found.ids.add(f"d-{number}")
        found.spent["desk"] += 1_000 + number
    found.offered += DESK_ORDERS
    return found


def _note_order(found: Outcome, offer: Offer) -> None:
    is_broken = not isinstance(offer.payload["cents"], int)
    found.broken += is_broken
    if offer.is_express:
        (found.dead_lettered if is_broken else found.express).add(offer.id)
    if not is_broken:
        found.spent[offer.customer] += offer.payload["cents"]
