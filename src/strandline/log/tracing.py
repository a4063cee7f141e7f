"""Spans for appends and deliveries. See design 0125."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from strandline.log.appending import Appends
from strandline.log.receipts import Receipt, Receipts
from strandline.log.results import TopicName, Value
from strandline.log.terms import Terms
from strandline.log.topics import is_internal_name
from strandline.values import Record


class SentSpan(Protocol):
    """The span of a running append."""

    def carried(self, value: Value) -> Value:
        """Return the value with the span in its headers, if it is an event without a span."""

    def stored(self, partition: int, offset: int) -> None:
        """Record the partition and offset."""


class Tracing(Protocol):
    """Makes spans. Any thread may call it; none of its calls raises."""

    def sending(self, topic: str, count: int) -> AbstractContextManager[SentSpan]:
        """Return a block for an append of `count` values; its span is current inside."""

    def continuing(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return a block that continues the span in a request's headers, if there is one."""

    def received(self, topic: str, consumer: str, records: Iterable[Record]) -> None:
        """Record that a consumer received these records."""

    def processing(
        self, topic: str, consumer: str, record: Record
    ) -> AbstractContextManager[object]:
        """Return a block for a function that handles a record, with its span current inside."""


class TracedAppends:
    """Appends values; each append has a span, which its events carry in their headers.

    Appends to internal topics have none.
    """

    #: The core does not make spans.
    appenders = None

    def __init__(self, appends: Appends, tracing: Tracing) -> None:
        self._appends = appends
        self._tracing = tracing
        self.knows: Final = appends.knows
        self.look_at: Final = appends.look_at
        self.is_fresh: Final = appends.is_fresh

    def append(
        self,
        topic: TopicName,
        value: Value,
        key: str | None,
        terms: Terms,
        *,
        may_wait: bool = True,
    ) -> Receipt:
        """As `Appends.append`."""
        if is_internal_name(_name(topic)):
            return self._appends.append(topic, value, key, terms, may_wait=may_wait)
        with self._tracing.sending(_name(topic), 1) as span:
            receipt = self._appends.append(
                topic, span.carried(value), key, terms, may_wait=may_wait
            )
            if may_wait:
                span.stored(receipt.partition, receipt.offset)
            return receipt

    def append_many(
        self,
        topic: TopicName,
        values: Sequence[Value],
        keys: Sequence[str | None] | None,
        terms: Terms,
        *,
        may_wait: bool = True,
    ) -> Receipts:
        """As `Appends.append_many`."""
        if is_internal_name(_name(topic)):
            return self._appends.append_many(topic, values, keys, terms, may_wait=may_wait)
        with self._tracing.sending(_name(topic), len(values)) as span:
            carried = [span.carried(value) for value in values]
            return self._appends.append_many(topic, carried, keys, terms, may_wait=may_wait)


def traced(appends: Appends, tracing: Tracing | None) -> Appends | TracedAppends:
    """Return `appends`, with spans if there is a tracing."""
    return appends if tracing is None else TracedAppends(appends, tracing)


def _name(topic: TopicName) -> str:
    return str(getattr(topic, "name", topic))
