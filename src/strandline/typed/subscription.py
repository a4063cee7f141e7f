"""A scope's subscription: older records, then live ones."""

import threading
from typing import TYPE_CHECKING, TypeVar

from strandline.clock import Clock, deadline_in, seconds_left
from strandline.locks import Attempt
from strandline.log import Log
from strandline.subscriptions import (
    Assignment,
    AsyncSubscription,
    CaughtUp,
    FellBehind,
    Marker,
    Stream,
    Subscription,
)
from strandline.typed.delivered import Delivered, DeliveredBatch, VisibleRows
from strandline.typed.readers import Reader, Readers
from strandline.values import InvalidError, Offset, Record, Topic
from strandline.values.arguments import check_timeout
from strandline.values.prompt import prompt_text

if TYPE_CHECKING:
    from strandline.typed import AsyncScopedSubscription

ItemT = TypeVar("ItemT", bound=Delivered | Marker)


class ScopedSubscription(Stream[ItemT]):
    """A stream of what one tenant sees of a topic, in offset order within a partition.

    An underlying subscription reads every record in order, without a gap; what the tenant does
    not see is skipped, so offsets may have gaps. Otherwise it behaves as `Subscription`; after
    a failed step the next one meets the same record.
    """

    def __init__(
        self,
        log: Log,
        topic: Topic,
        inner: Subscription[Record | Marker],
        visible: VisibleRows,
        *,
        clock: Clock,
        reader: Reader | None,
        readers: Readers,
    ) -> None:
        super().__init__()
        self._log = log
        self._topic = topic
        self._inner = inner
        self._visible = visible
        self._clock = clock
        self._reader = reader
        self._readers = readers
        self._stepping = threading.Lock()
        self._attempt = Attempt(self._stepping)
        self._current: Record | Marker | None = None

    @property
    def assignment(self) -> Assignment:
        """The partitions that it reads; any thread may change them at any time."""
        return self._inner.assignment

    def next(self, timeout_s: float | None = None) -> ItemT | None:
        """Return the next item, or None if there is none within `timeout_s`."""
        deadline = self._begin_step(timeout_s)
        try:
            while True:
                if self._current is None:
                    self._current = self._inner.next(seconds_left(self._clock, deadline))
                if self._current is None:
                    return None
                if (item := self._look()) is not None:
                    return item
        finally:
            self._stepping.release()

    async def _next_on_loop(self, timeout_s: float | None = None) -> ItemT | None:
        deadline = self._begin_step(timeout_s)
        inner = AsyncSubscription(self._inner)
        try:
            while True:
                if self._current is None:
                    self._current = await inner.next(seconds_left(self._clock, deadline))
                if self._current is None:
                    return None
                if (item := self._look()) is not None:
                    return item
        finally:
            self._stepping.release()

    def ack(self, delivered: Delivered) -> Offset:
        """Acknowledge this and everything before it; return the cursor, which is stored then.

        InvalidError for a subscription without a consumer.
        """
        if self._reader is None:
            raise InvalidError("only a consumer acks, subscribe with consumer=")
        if not isinstance(delivered, DeliveredBatch | Record):
            raise InvalidError(
                "delivered must be from this subscription", type=type(delivered).__name__
            )
        return self._log.ack(
            self._topic,
            self._reader.name,
            delivered.partition,
            delivered.offset + 1,
            tenant=self._reader.tenant,
        )

    def __repr__(self) -> str:
        consumer = None if self._reader is None else self._reader.name
        return prompt_text("ScopedSubscription", self._inner, consumer=consumer)

    def close(self) -> None:
        """End the stream, also for a thread that waits for its next item. May be repeated."""
        self._inner.close()
        if self._reader is not None:
            self._readers.remove(self._reader)

    async def __aenter__(self) -> "AsyncScopedSubscription[ItemT]":
        from strandline.typed import AsyncScopedSubscription  # noqa: PLC0415 - Made of this.

        return AsyncScopedSubscription(self)

    def _look(self) -> ItemT | None:
        """Return the visible part of the current item, and mark it as done."""
        item = self._current
        assert item is not None
        shown = item if isinstance(item, CaughtUp | FellBehind) else self._visible.of(item)
        self._current = None
        if self._reader is not None and isinstance(shown, DeliveredBatch | Record):
            self._reader.delivered[shown.partition] = shown.offset
        return shown  # type: ignore[return-value] # Markers are returned only on request.

    def _begin_step(self, timeout_s: float | None) -> float | None:
        checked_s = check_timeout(timeout_s)
        self._inner.check_open()
        if not self._attempt:
            raise InvalidError("another thread or task reads this subscription, subscribe twice")
        return deadline_in(self._clock, checked_s)
