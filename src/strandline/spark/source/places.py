"""Resolves the partitions of a read, and the offsets of its start and end."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from strandline.log import LogReader, LogTopics
from strandline.spark.options import PositionBound, Selection
from strandline.values import InvalidError, Marks, Topic, TrimmedError

EARLIEST_OFFSET = -2
LATEST_OFFSET = -1


class SourcePartition(NamedTuple):
    """A partition to read."""

    topic: Topic
    partition: int


Offsets = Mapping[SourcePartition, int]


def chosen_topics(log: LogTopics, selection: Selection) -> Sequence[Topic]:
    """Return the topics of a selection, by name; InvalidError if one is missing.

    A tenant sees its own topics and the global ones, its own first. A pattern may match none.
    """
    if selection.pattern is not None:
        seen = {topic.name: topic for topic in log.topics()}
        if selection.tenant is not None:
            seen |= {topic.name: topic for topic in log.topics(tenant=selection.tenant)}
        matches = re.compile(selection.pattern).fullmatch
        return [seen[name] for name in sorted(seen) if matches(name)]
    names = selection.names or tuple(selection.assigned or ())
    return [_topic(log, name, selection.tenant) for name in sorted(names)]


def _topic(log: LogTopics, name: str, tenant: str | None) -> Topic:
    if tenant is not None:
        own = [topic for topic in log.topics(tenant=tenant) if topic.name == name]
        if own:
            return own[0]
    return log.topic(name)


def chosen_places(
    log: LogTopics, selection: Selection, topics: Sequence[Topic]
) -> Sequence[SourcePartition]:
    """Return the partitions of these topics that are wanted, in order."""
    found = []
    for topic in topics:
        count = log.describe_topic(topic).settings.partitions
        wanted: Sequence[int] = range(count)
        if selection.assigned is not None:
            wanted = sorted(set(selection.assigned[topic.name]))
            if wanted[0] < 0 or wanted[-1] >= count:
                raise InvalidError(
                    "assign names a partition that the topic does not have",
                    topic=topic.name,
                    assigned=list(wanted),
                    partitions=count,
                )
        found += [SourcePartition(topic, partition) for partition in wanted]
    return found


class Bounds:
    """Resolves the options for start and end to offsets."""

    def __init__(self, log: LogReader, places: Sequence[SourcePartition]) -> None:
        self._log = log
        self._places = places
        self._marks: dict[SourcePartition, Marks] = {}

    def offsets(self, bound: PositionBound | None, default: str) -> dict[SourcePartition, int]:
        """Return an offset for each partition; without a bound, that of the name `default`."""
        chosen = bound or PositionBound(word=default)
        if chosen.offsets is not None:
            self._check_complete(chosen.offsets)
        if chosen.timestamps_us is not None:
            self._check_complete(chosen.timestamps_us)
        return {place: self._offset(place, chosen) for place in self._places}

    def marks(self, place: SourcePartition) -> Marks:
        """Return where a partition begins and ends, the same for the whole read."""
        found = self._marks.get(place)
        if found is None:
            found = self._marks[place] = self._log.marks(*place)
        return found

    def _offset(self, place: SourcePartition, bound: PositionBound) -> int:
        marks = self.marks(place)
        if bound.word is not None:
            return int(marks.low if bound.word == "earliest" else marks.high)
        if bound.offsets is not None:
            offset = bound.offsets[place.topic.name][place.partition]
            named = {EARLIEST_OFFSET: int(marks.low), LATEST_OFFSET: int(marks.high)}
            return named.get(offset, offset)
        timestamp_us = bound.timestamp_us
        if timestamp_us is None:
            assert bound.timestamps_us is not None
            timestamp_us = bound.timestamps_us[place.topic.name][place.partition]
        return self._offset_at(place, timestamp_us, bound.strategy)

    def _offset_at(self, place: SourcePartition, timestamp_us: int, strategy: str) -> int:
        high = self.marks(place).high
        found = self._log.offset_at(*place, timestamp_us)
        if found >= high and strategy == "error":
            raise InvalidError(
                "no record is as young as the starting time; "
                "startingOffsetsByTimestampStrategy=latest starts at the end then",
                topic=place.topic.name,
                partition=place.partition,
                timestamp_ms=timestamp_us // 1000,
            )
        return min(int(found), int(high))

    def _check_complete(self, named: Mapping[str, Mapping[int, int]]) -> None:
        wanted = {(place.topic.name, place.partition) for place in self._places}
        given = {(topic, partition) for topic, each in named.items() for partition in each}
        if wanted != given:
            raise InvalidError(
                "name each partition that is read, and no other",
                missing=sorted(wanted - given),
                unknown=sorted(given - wanted),
            )


def kept_range(
    place: SourcePartition, start: int, end: int, marks: Marks, *, fail_on_data_loss: bool
) -> tuple[int, int]:
    """Return the part of [start, end) that exists; raise if the rest is lost and must not be."""
    if fail_on_data_loss:
        if start < marks.low and start < end:
            raise TrimmedError(
                marks.low, topic=place.topic.name, partition=place.partition, offset=start
            )
        if end > marks.high or start > marks.high:
            raise InvalidError(
                "this lies beyond the end of the partition, records were lost or the offset "
                "is of another log; failOnDataLoss=false reads what there is",
                topic=place.topic.name,
                partition=place.partition,
                offset=max(start, end),
                end=marks.high,
            )
    low, high = int(marks.low), int(marks.high)
    start = min(max(start, low), high)
    return start, min(max(start, end), high)
