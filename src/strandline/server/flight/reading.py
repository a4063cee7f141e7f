"""The rows that a ticket requests: those between two offsets of each partition of a topic."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import pyarrow as pa

from strandline.log import Log
from strandline.log.columns import batch_schema, plain_schema
from strandline.log.ranges import ReadRange, check_range
from strandline.scans.reading import ScanRead, read_of
from strandline.scans.scanning import chosen_columns
from strandline.server.caller import Caller
from strandline.server.flight.tickets import ReadTicket
from strandline.server.places import offset_of
from strandline.server.resume import positions_in
from strandline.typed import definition_of
from strandline.values import InvalidError, Topic, ValueKind
from strandline.values.partitioning import unknown_partition

_MESSAGE_BYTES: Final = 1024 * 1024

Spans = Mapping[int, tuple[int, int]]
"""The records [start, end) of each partition."""


@dataclass(frozen=True, slots=True)
class AskedRows:
    """The current rows that a ticket requests."""

    topic: Topic
    spans: Spans
    names: list[str]
    read: ScanRead

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.read.narrow(self.names)

    @property
    def count(self) -> int:
        """The number of rows; -1 if it is unknown."""
        if self.read.sieve.predicate is not None or self.read.sieve.kind is ValueKind.BATCH:
            return -1
        return sum(end - start for start, end in self.spans.values())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield them, in the order of partition and offset; events and bytes in larger batches."""
        batches = self.read.batches(self.names)
        return batches if self.read.sieve.kind is ValueKind.BATCH else _merged(batches)


def _merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of about _MESSAGE_BYTES, because each message has a cost."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _MESSAGE_BYTES:
            yield pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield pa.concat_batches(held)


def asked_rows(log: Log, caller: Caller, ticket: ReadTicket) -> AskedRows:
    """Return the requested rows; InvalidError, TrimmedError or DivergedError."""
    topic = caller.find(log, ticket.topic)
    spans = _spans(log, topic, ticket)
    read = read_of(log, topic, ticket.predicate, None)
    within = {
        partition: _shared(span, read.ranges.get(partition, span))
        for partition, span in spans.items()
    }
    names = list(chosen_columns(read.schema, ticket.columns))
    return AskedRows(topic, spans, names, replace(read, ranges=within))


def fixed_ticket(ticket: ReadTicket, found: AskedRows) -> ReadTicket:
    """Return the ticket of exactly these rows, whatever is appended later; a follower continues."""
    starts = {partition: start for partition, (start, _) in found.spans.items()}
    if ticket.follow:
        return ticket if ticket.after else msgspec.structs.replace(ticket, start=starts)
    ends = {partition: end for partition, (_, end) in found.spans.items()}
    chosen = sorted(found.spans)
    return msgspec.structs.replace(ticket, start=starts, end=ends, partitions=chosen, after="")


def declared_schema(log: Log, topic: Topic) -> pa.Schema:
    """Return the columns that a topic is registered with: no record is read for it."""
    settings = log.describe_topic(topic).settings
    if settings.value_kind is ValueKind.BATCH:
        return batch_schema(definition_of(log, topic).versions)
    return plain_schema(settings)


def _spans(log: Log, topic: Topic, ticket: ReadTicket) -> Spans:
    chosen = _partitions(log, topic, ticket)
    resumed = _resumed(log, topic, ticket.after) if ticket.after else None
    found = {}
    for partition in chosen:
        if resumed is None:
            start = offset_of(log, topic, partition, _place(ticket, partition))
        else:
            # Partitions that were added later are read from their beginning.
            start = resumed.get(partition, 0)
        end = ticket.end.get(partition) if isinstance(ticket.end, dict) else ticket.end
        wanted = ReadRange(start, end, durable_only=ticket.durable_only).checked()
        marks = log.marks(topic, partition)
        stop = check_range(wanted, marks, marks.low, topic, partition)
        found[partition] = start, max(start, stop)
    return found


def _partitions(log: Log, topic: Topic, ticket: ReadTicket) -> list[int]:
    count = log.describe_topic(topic).settings.partitions
    every = range(count)
    named = {*(ticket.partitions if ticket.partitions is not None else every)}
    offsets = [each for each in (ticket.start, ticket.end) if isinstance(each, dict)]
    strange = sorted(named.union(*offsets) - set(every))
    if strange or not named:
        raise unknown_partition(strange, count)
    return sorted(named)


def _place(ticket: ReadTicket, partition: int) -> str:
    if isinstance(ticket.start, dict):
        return str(ticket.start.get(partition, "earliest"))
    return str(ticket.start)


def _resumed(log: Log, topic: Topic, token: str) -> dict[int, int]:
    positions = positions_in(token)
    if {each.topic_id for each in positions} != {topic.id}:
        raise InvalidError("this resume token is of another topic", topic=topic.name)
    return {each.partition: log.resolve(each) for each in positions}


def _shared(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    start = max(one[0], other[0])
    return start, max(start, min(one[1], other[1]))
