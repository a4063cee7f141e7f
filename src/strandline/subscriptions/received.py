"""Tracing spans for received and processed records."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial

from strandline.log import Log
from strandline.log.parts import parts_of
from strandline.subscriptions.consumer_name import ConsumerName
from strandline.subscriptions.delivery import Delivery
from strandline.values import Record, Topic


def tracing_of(log: Log, whose: ConsumerName) -> Callable[[Iterable[Delivery]], None] | None:
    """Return a function that traces a consumer's deliveries; None for a log without tracing."""
    tracing = parts_of(log).tracing
    if tracing is None:
        return None

    def note(deliveries: Iterable[Delivery]) -> None:
        tracing.received(whose.topic.name, whose.name, [each.record for each in deliveries])

    return note


def processing_of(
    log: Log, topic: Topic, name: str
) -> Callable[[Record], AbstractContextManager[object]] | None:
    """Return a function that makes a span block for each record; None without tracing."""
    tracing = parts_of(log).tracing
    if tracing is None:
        return None
    return partial(tracing.processing, topic.name, name)
