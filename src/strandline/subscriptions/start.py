"""Resolves a subscription's start in a partition to an offset, once, when it is assigned."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeAlias

from strandline.log import Log
from strandline.subscriptions.cursor import TopicPartition
from strandline.values import (
    InvalidError,
    Marks,
    Offset,
    Start,
    StartName,
    TrimmedError,
)
from strandline.values.arguments import whole
from strandline.values.instants import us_since_epoch

KnownStart: TypeAlias = Start | int | datetime
"""EARLIEST, LATEST, an offset, or the time from which records are wanted."""

StartPoint: TypeAlias = KnownStart | StartName
"""A start; the first two also by name."""

Starts: TypeAlias = StartPoint | Mapping[int, StartPoint]
"""One start for all partitions, or one for each; an offset cannot be for several."""

Partitions: TypeAlias = Iterable[int | tuple[int, StartPoint]]
"""Partitions, each with or without a start."""


def known_start(start: StartPoint) -> KnownStart:
    """Return the start, parsed if it is text. InvalidError for other text."""
    return Start.parse(start) if isinstance(start, str) else start


def end_of(marks: Marks, *, durable_only: bool) -> Offset:
    """Return the partition's end for readers of durable records, or of all records."""
    return marks.durable if durable_only else marks.high


def resolve(
    log: Log, place: TopicPartition, start: StartPoint, marks: Marks, end: Offset
) -> Offset:
    """Return the offset that `start` means at this moment; LATEST means `end`.

    InvalidError for an offset that is negative or beyond the end, and for a time
    without a time zone; TrimmedError for an offset that is no longer stored.
    """
    start = known_start(start)
    if isinstance(start, Start):
        return marks.low if start is Start.EARLIEST else end
    if isinstance(start, datetime):
        return log.offset_at(*place, _microseconds(start))
    return _kept(place, start, marks)


def _microseconds(moment: datetime) -> int:
    if moment.utcoffset() is None:
        raise InvalidError("a start is a datetime with a time zone, add tzinfo", start=moment)
    return us_since_epoch(moment)


def _kept(place: TopicPartition, start: object, marks: Marks) -> Offset:
    shown = {"topic": place.topic.name, "partition": place.partition, "start": start}
    offset = whole(start)
    if offset is None or offset < 0:
        raise InvalidError("start is 'earliest', 'latest', an offset from 0 or a datetime", **shown)
    if offset > marks.high:
        raise InvalidError("this start offset lies beyond the end", end=marks.high, **shown)
    if offset < marks.low:
        raise TrimmedError(marks.low, **shown)
    return Offset(offset)
