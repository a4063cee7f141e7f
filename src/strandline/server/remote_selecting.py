"""Predicates of remote logs, evaluated where the records are. See design 0112."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, cast

import pyarrow as pa

from strandline.log import wire
from strandline.log.draft import size_of
from strandline.log.ranges import ReadRange
from strandline.log.store import StoredTopic
from strandline.predicates import parse_predicate
from strandline.scans.paging import ROWS_EXAMINED, scan_page, topic_columns
from strandline.scans.sieve import Sieve
from strandline.server.call import Call
from strandline.server.endpoint import Endpoint
from strandline.server.remote_call import StorePort, port_call
from strandline.server.remote_store import wire_record
from strandline.subscriptions.cursor import TopicPartition
from strandline.subscriptions.screening import (
    BatchScreen,
    EventScreen,
    Screen,
    sift_together,
)
from strandline.subscriptions.selecting import Selecting
from strandline.values import InvalidError, Partition, Record, ValueKind
from strandline.values.batches import decode_schema
from strandline.values.tenant import parse_tenant

_PREDICATES_MAX: Final = 256
_PAGE_RECORDS: Final = 1024
_SCREENS_KEPT: Final = 256


@port_call("select", wire.SelectCall, is_read=True)
def select_in_store(call: Call, port: StorePort, given: wire.SelectCall) -> wire.Message:
    """Return the records that any of these predicates selects, and where the page ends."""
    topic, number = port.partition(call, given)
    if not 0 < len(given.predicates) <= _PREDICATES_MAX:
        raise InvalidError("the number of predicates is out of range", count=len(given.predicates))
    screens = [_screen(topic, each) for each in given.predicates]
    wanted = ReadRange(given.start, durable_only=given.durable_only).checked()
    # The marks are read first, so that no record lies beyond them.
    stop = min(wanted.stop(port.store.marks(topic, number)), given.start + ROWS_EXAMINED)
    limits, selecting = _Limits(given), Selecting(call.log.blocking)
    place = TopicPartition(topic.topic, Partition(number))
    at = given.start
    while at < stop and not limits.is_reached:
        page = wanted._replace(
            start=at, end=stop, records_max=_PAGE_RECORDS, bytes_max=wire.PAGE_BYTES
        )
        records = list(port.store.read(topic, number, page))
        if not records:
            break
        found = _selected(screens, records)
        at = limits.take(found, records[-1].offset + 1)
        if not found and len(screens) == 1 and not given.durable_only:
            # What the store or its tier can exclude need not be read.
            at = min(stop, selecting.first_wanted(place, at, screens[0]))
    return wire.SelectReturn([wire_record(each) for each in limits.taken], at)


class _Limits:
    """Collects records up to the size of a page."""

    def __init__(self, given: wire.SelectCall) -> None:
        self._records_max = max(1, min(given.records_max, wire.PAGE_RECORDS))
        self._bytes_left = min(given.bytes_max, wire.PAGE_BYTES)
        self.taken: list[Record] = []
        self.is_reached = False

    def take(self, found: Sequence[Record], end: int) -> int:
        """Add records up to `end` that fit; return the offset up to which they are complete."""
        for record in found:
            size = size_of(record)
            if self.taken and (len(self.taken) == self._records_max or size > self._bytes_left):
                self.is_reached = True
                return record.offset
            self._bytes_left -= size
            self.taken.append(record)
        return end


def _screen(topic: StoredTopic, given: wire.WirePredicate) -> Screen:
    kind = topic.settings.value_kind
    if kind is ValueKind.EVENT:
        return _event_screen(given.where, given.now_us, given.declared)
    if kind is ValueKind.BATCH:
        return BatchScreen(given.where, given.now_us)
    raise InvalidError("records of plain bytes have no columns, read them without a predicate")


@lru_cache(_SCREENS_KEPT)
def _event_screen(where: str, now_us: int, declared: bytes | None) -> EventScreen:
    schema = None if declared is None else decode_schema(declared)
    return EventScreen(where, now_us, schema)


def _selected(screens: Sequence[Screen], records: Sequence[Record]) -> list[Record]:
    """Return the records that any of them selects, or on which it fails, in their order."""
    events = [each for each in screens if isinstance(each, EventScreen)]
    together = sift_together(events, records)
    found: dict[int, Record] = {}
    for screen in screens:
        if isinstance(screen, EventScreen) and screen in together:
            found |= {at: records[at] for at in together[screen]}
            continue
        for at, outcome in enumerate(screen.sift(records)):
            if outcome is None:
                continue
            # If it fails, the client evaluates the whole record, and gets the error.
            is_whole = isinstance(outcome, InvalidError) or len(screens) > 1
            found[at] = records[at] if is_whole else cast("Record", outcome)
    return [found[at] for at in sorted(found)]


@port_call("scan", wire.ScanCall, is_read=True)
def scan_in_store(call: Call, port: StorePort, given: wire.ScanCall) -> wire.Message:
    """Read columns of the rows that a scan selects."""
    topic, number = port.partition(call, given)
    if not 0 <= given.start < given.end:
        raise InvalidError("a scan has a range of offsets", start=given.start, end=given.end)
    read = _sieve(topic.settings.value_kind, given)
    columns = decode_schema(given.columns)
    place, span = (topic.topic, number), (given.start, given.end)
    try:
        batches, end = scan_page(call.log.blocking, place, span, columns, read)
    except (pa.ArrowException, KeyError) as error:
        raise InvalidError("these columns are not of the topic", reason=str(error)) from error
    return wire.ScanReturn(_stream(columns, batches), end)


def _sieve(kind: ValueKind, given: wire.ScanCall) -> Sieve:
    tenant = parse_tenant(given.tenant)
    if given.predicate is None or given.offered is None:
        return Sieve(kind, tenant)
    offered = decode_schema(given.offered)
    where, now_us = given.predicate.where, given.predicate.now_us
    predicate = parse_predicate(where, offered, now_us=now_us)
    return Sieve(kind, tenant, predicate, tuple(offered.names))


def _stream(columns: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


@port_call("scan-schema", wire.RangesCall)
def get_scan_schema(call: Call, port: StorePort, given: wire.RangesCall) -> wire.Message:
    """Return the columns that ranges of partitions have."""
    topic = port.topics.by_id(call.caller, given.topic_id)
    ranges = {number: (start, end) for number, start, end in given.ranges}
    found = topic_columns(call.log.blocking, topic.topic, topic.settings, ranges)
    return wire.SchemaReturn(bytes(found.serialize().to_pybytes()))


ENDPOINTS: tuple[Endpoint, ...] = (select_in_store, scan_in_store, get_scan_schema)
