"""The transport of wake-ups, and publishing to it after appends. See design 0042."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from strandline.log.receipts import Receipt, Receipts
from strandline.log.results import TopicName
from strandline.values import StrandlineError, Tenant, Topic

#: Where failures of a broker are logged.
failures: Final = logging.getLogger("strandline.broker")


@dataclass(frozen=True, slots=True)
class LiveSubscription:
    """An open subscription, in this process or another."""

    topic: Topic
    name: str | None
    """The consumer's name, if it has one."""
    tenant: Tenant | None
    """The consumer's tenant."""
    pid: int


class Broker(Protocol):
    """Carries wake-ups from writers to subscriptions, and lists the subscriptions.

    A wake-up says that a topic may have grown, and holds no data. Only latency depends on
    it: an error that a broker raises is logged, and neither a writer nor a subscription
    fails because of it. It does not check tenants: its list is for the process that opened
    the log. Any call may be made from any thread.
    """

    def publish(self, topic: TopicName, /) -> None:
        """Wake the subscriptions to a topic of this name, if there are any."""

    def attach(self, live: LiveSubscription, wake: Callable[[], None], /) -> Callable[[], None]:
        """List this subscription and call `wake` at each wake-up of its topic.

        Returns a function that undoes both; it may be called twice. `wake` may be called
        spuriously, and must return quickly.
        """

    def live(self, topic: Topic | None = None, /) -> Sequence[LiveSubscription]:
        """Return the subscriptions of a topic, or of all, as far as this broker reaches."""

    def close(self) -> None:
        """End every attachment, and release what it holds."""


class Announcer:
    """Publishes appends. Invariant: a topic is announced only after the append can be read."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        #: Per thread: the topics appended to inside a transaction.
        self._pending = threading.local()
        self._tasks: set[asyncio.Task[None]] = set()

    def announce(self, topic: TopicName, receipt: Receipt | Receipts) -> None:
        """Publish an append, now or once its outcome is known."""
        inside = getattr(self._pending, "topics", None)
        if inside is not None:
            inside.add(topic)
        elif receipt.is_settled:
            self._publish(topic)
        else:
            # On an event loop the outcome may come later.
            task = asyncio.get_running_loop().create_task(self._announce_later(topic, receipt))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @contextlib.contextmanager
    def transaction(self, block: AbstractContextManager[Any]) -> Iterator[Any]:
        """Publish the appends made inside a transaction after its commit."""
        with block as connection:
            topics: set[TopicName] = set()
            self._pending.topics = topics
            try:
                yield connection
            finally:
                del self._pending.topics
        for topic in topics:
            self._publish(topic)

    async def _announce_later(self, topic: TopicName, receipt: Receipt | Receipts) -> None:
        # Errors are reported by the receipt itself.
        with contextlib.suppress(StrandlineError):
            await receipt
            self._publish(topic)

    def _publish(self, topic: TopicName) -> None:
        with tolerated("a wake-up was not published, readers poll instead"):
            self._broker.publish(topic)


@contextlib.contextmanager
def tolerated(what: str) -> Iterator[None]:
    """Log any error that a broker raises, and continue."""
    try:
        yield
    except Exception:  # noqa: BLE001 - A lost wake-up costs only latency.
        failures.warning(what, exc_info=True)


def announced(announcer: Announcer | None, topic: TopicName, receipts: Receipts) -> Receipts:
    """Publish the append of these receipts if there is a broker, and return them."""
    if receipts and announcer is not None:
        announcer.announce(topic, receipts)
    return receipts
