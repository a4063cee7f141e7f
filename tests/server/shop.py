"""A shop whose log is looked at: topics, consumers that are behind, dead letters, a view."""

import contextlib
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import strandline as sl
from strandline.log import Log
from strandline.triggers import Triggers
from strandline.values import Event, Record
from strandline.views import LiveView, View
from tests.server.served import Served

SCREENS: dict[str, tuple[str, str]] = {
    "log": ("", "healthy"),
    "topic": ("topic?topic=prices", "was int32"),
    "tail": ("tail?topic=orders&start=earliest", "Caught up"),
    "record": ("record?topic=orders&partition=0&offset=3", "Position"),
    "consumers": ("consumers", "daily-report"),
    "seek": ("consumers?topic=orders&consumer=mailer", "Preview"),
    "dead-letters": ("dead-letters?topic=payments", "no account 4004"),
    "dead-letter-topics": ("dead-letters", "payments"),
    "triggers-views": ("work", "View spending"),
    "spark": ("spark", "daily-report"),
    "metrics": ("metrics", "Streams open"),
}
"""By name, what follows #/ and a text that shows that the screen is there."""


class Spending(View[dict[str, float]]):
    """What each customer has spent."""

    def initial(self, _: int) -> dict[str, float]:
        return {}

    def apply(self, state: dict[str, float], record: Record) -> None:
        state[str(record.key)] = state.get(str(record.key), 0.0) + record.payload["total"]


@contextlib.contextmanager
def open_shop(path: Path) -> Iterator[Served]:
    """Serve the log of a shop, with a view and a trigger beside it."""
    log = sl.open(f"file:{path}")
    fill(log)
    triggers = Triggers(log)

    @triggers.on("orders", name="shop.labels", start=sl.LATEST)
    def label(record: Record) -> None:
        pass

    with log, LiveView(log, "orders", Spending()) as view, triggers:
        view.reconcile(range(3))
        served = Served(log, views={"spending": view}, triggers=[triggers])
        try:
            yield served
        finally:
            served.stop()


def fill(log: Log) -> None:
    log.create_topic("orders", partitions=3, metadata={"owner": "shop"})
    log.create_topic("payments", proof=True, retention_age_s=7 * 86_400)
    log.create_topic("readings")
    log.scope().register("prices", _schema(("sku", "string"), ("cents", "int32")))
    log.scope().evolve("prices", _schema(("sku", "string"), ("cents", "int64"), ("at", "date32")))
    for number in range(300):
        total = number * 7 % 400 / 10
        payload = {"id": number, "total": total, "items": [{"sku": f"S{number % 9}", "n": 2}]}
        kind = "order.placed" if number % 3 else "order.changed"
        log.append("orders", Event(kind, payload, key=f"customer-{number % 40}"))
    for number in range(24):
        payload = {"order": number, "amount": number * 12.5}
        log.append("payments", Event("payment.received", payload, headers={"channel": "card"}))
    for partition in range(3):
        log.ack("orders", "mailer", partition, 40 + partition)
    log.ack("orders", "daily-report", 0, 90)
    with log.consumer("payments", "ledger", deliveries_max=1) as ledger:
        for number in range(20):
            delivery = ledger.next(60)
            assert delivery is not None
            if number % 5 == 4:
                ledger.nack(delivery, reason=f"ValueError: no account {4000 + number}")
            else:
                ledger.ack(delivery)


def _schema(*fields: tuple[str, str]) -> Any:
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in fields])


def keep_trading(log: Log, ended: threading.Event) -> None:
    """Append orders, more and fewer of them, and handle most."""
    topic, number = log.topic("orders"), 1000
    while not ended.wait(0.1):
        count = 12 + round(10 * math.sin(number / 90))
        for _ in range(count):
            number += 1
            payload = {"id": number, "total": number * 7 % 400 / 10, "items": [{"sku": "S1"}]}
            log.append(topic, Event("order.placed", payload, key=f"customer-{number % 40}"))
        if number % 3:
            for partition in range(3):
                log.ack(topic, "mailer", partition, max(42, log.marks(topic, partition).high - 40))
        log.flush()


def log_of(served: Served) -> Log:
    """Return the log that is served."""
    return served.server.app.log.blocking
