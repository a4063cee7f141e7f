"""A log that tells a broker of what it has written, and of who subscribes."""

import asyncio
import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from strandline.log import Log, Receipt, Receipts, TopicName, Value, Watch
from strandline.subscriptions.broker import Broker, LiveSubscription, failures
from strandline.values import StrandlineError, Tenant, Topic


class BrokeredLog(Log, Protocol):
    """A log with a broker. A backend becomes one by inheriting from it, before its own class.

    Invariant: the broker is told after what it tells of can be read.
    """

    broker: Broker
    #: Of each thread: what it has appended inside a transaction.
    _pending: threading.local
    _tasks: set[asyncio.Task[None]]

    def use_broker(self, broker: Broker) -> None:
        """Tell this one from now on."""
        self.broker = broker
        self._pending = threading.local()
        self._tasks = set()

    def append(self, topic: TopicName, value: Value, **terms: Any) -> Receipt:
        receipt = super().append(topic, value, **terms)  # type: ignore[safe-super]
        self._announce(topic, receipt, is_settled=receipt.is_settled)
        return receipt

    def append_many(self, topic: TopicName, values: Iterable[Value], **terms: Any) -> Receipts:
        receipts = super().append_many(topic, values, **terms)  # type: ignore[safe-super]
        if receipts:
            self._announce(topic, receipts, is_settled=receipts[0].is_settled)
        return receipts

    def transaction(
        self, connection: sqlite3.Connection | None = None
    ) -> AbstractContextManager[sqlite3.Connection]:
        return self._announcing(super().transaction(connection))  # type: ignore[safe-super]

    @contextlib.contextmanager
    def _announcing(
        self, block: AbstractContextManager[sqlite3.Connection]
    ) -> Iterator[sqlite3.Connection]:
        with block as connection:
            topics: set[TopicName] = set()
            self._pending.topics = topics
            try:
                yield connection
            finally:
                del self._pending.topics
        for topic in topics:
            self._publish(topic)

    def _announce(self, topic: TopicName, receipt: Receipt | Receipts, *, is_settled: bool) -> None:
        inside = getattr(self._pending, "topics", None)
        if inside is not None:
            inside.add(topic)
        elif is_settled:
            self._publish(topic)
        else:
            # On an event loop the outcome may come later.
            task = asyncio.get_running_loop().create_task(self._announce_later(topic, receipt))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _announce_later(self, topic: TopicName, receipt: Receipt | Receipts) -> None:
        # Whoever holds the receipt is told what became of it.
        with contextlib.suppress(StrandlineError):
            await receipt.reached()
            self._publish(topic)

    def _publish(self, topic: TopicName) -> None:
        with _tolerated("a wake-up was not carried, readers look by themselves"):
            self.broker.publish(topic)


def attached(
    log: Log, topics: Iterable[Topic], watch: Watch, *, name: str | None, tenant: str | None
) -> Callable[[], None]:
    """Attach a reader that sleeps in `watch` to the log's broker; return what ends both."""
    broker: Broker | None = getattr(log, "broker", None)
    if broker is None:
        return watch.close
    ends: list[Callable[[], None]] = []
    for topic in topics:
        whose = topic.tenant if tenant is None else Tenant(tenant)
        with _tolerated("a subscription is not listed, nor woken by others"):
            live = LiveSubscription(topic, name, whose, os.getpid())
            ends.append(broker.attach(live, watch.wake))

    def end() -> None:
        watch.close()
        for each in ends:
            with _tolerated("a subscription may still be listed"):
                each()

    return end


@contextlib.contextmanager
def _tolerated(what: str) -> Iterator[None]:
    try:
        yield
    except Exception:  # noqa: BLE001 - Whatever a broker raises, it costs time and nothing else.
        failures.warning(what, exc_info=True)
