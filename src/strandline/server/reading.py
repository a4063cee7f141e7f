"""Reading a page of a partition over HTTP, and waiting for one."""

import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from starlette.responses import Response

from strandline.clock import Clock
from strandline.log import Log, parts_of
from strandline.log.off_loop import in_thread
from strandline.predicates import parse_predicate
from strandline.server.call import Call
from strandline.server.endpoint import ARROW, JSON, NDJSON, endpoint
from strandline.server.etags import is_known
from strandline.server.media import accepted
from strandline.server.places import offset_of
from strandline.server.settings import WAIT_MAX_S
from strandline.server.tokens import TokenScope
from strandline.subscriptions.screening import screen_for
from strandline.values import ClosedError, InvalidError, Marks, Record, Topic, ValueKind
from strandline.values.json_forms import record_json

_FORMS = (JSON, NDJSON, ARROW)


class ReadQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What to read."""

    start: str = "earliest"
    end: int | None = None
    limit: int = 100
    bytes_max: int | None = None
    durable_only: bool = False
    wait: float = 0
    predicate: str = ""
    columns: str = ""


class ReadAnswer(msgspec.Struct):
    """A page of records. `next` is the offset to continue at, `end` the end of the partition."""

    records: list[dict[str, Any]]
    next: int
    end: int
    oldest: int


class RecordPage(NamedTuple):
    """What was read of a partition."""

    start: int
    next: int
    marks: Marks
    epoch_id: str
    body: bytes


@endpoint(
    "GET",
    "/v1/topics/{topic}/partitions/{partition}/records",
    TokenScope.READ,
    query=ReadQuery,
    answers={JSON: ReadAnswer, NDJSON: str, ARROW: bytes},
    statuses={304: "It is what If-None-Match names."},
)
async def read_records(call: Call) -> Response:
    """Read a page of records from an offset, a time, or `-n` from the end.

    With `wait`, a read at the end returns once there are records, or after so many seconds.
    The headers Strandline-Next-Offset and Strandline-End-Offset have `next` and `end`.
    """
    query = _checked(call.query(ReadQuery), call)
    media = accepted(call.request, _FORMS)
    if query.columns and media != ARROW:
        raise InvalidError(
            "only Arrow streams have columns to choose, accept that type", columns=query.columns
        )
    topic, partition = await call.topic(), call.partition
    reader = PageReader(call.log.blocking, topic, partition, query, media)
    start = await in_thread(reader.start)
    page = await in_thread(reader.read, start)
    if query.wait and page.next == start and not call.streams.is_draining:
        await _wait(call, topic, partition, start, query)
        page = await in_thread(reader.read, start)
    selection = hashlib.sha256(f"{media}|{query.predicate}|{query.columns}".encode()).hexdigest()
    tag = f'"{topic.id}-{partition}-{page.start}-{page.next}-{page.epoch_id}-{selection[:8]}"'
    return _answer(page, media, tag, is_known=is_known(call.request, tag))


def _checked(query: ReadQuery, call: Call) -> ReadQuery:
    limits = call.settings
    if not 0 <= query.limit <= limits.page_records_max:
        raise InvalidError(
            f"limit is a number from 0 to {limits.page_records_max}", limit=query.limit
        )
    if not 0 <= query.wait <= WAIT_MAX_S:
        raise InvalidError(
            f"wait is a number of seconds from 0 to {WAIT_MAX_S:.0f}", wait=query.wait
        )
    if query.bytes_max is not None and not 0 <= query.bytes_max <= limits.page_bytes_max:
        raise InvalidError(
            f"bytes_max is a number from 0 to {limits.page_bytes_max}", bytes=query.bytes_max
        )
    most = call.page_bytes_max
    bytes_max = most if query.bytes_max is None else min(most, query.bytes_max)
    return msgspec.structs.replace(query, bytes_max=bytes_max)


async def _wait(call: Call, topic: Topic, partition: int, start: int, query: ReadQuery) -> None:
    """Return once the partition has grown, the time is up, or client or server end the wait."""
    slot = call.streams.take(call.caller)
    try:
        async with call.log.watch(durable_only=query.durable_only) as watch:
            await watch.add(topic, partition, start)
            ended = call.streams.ended_by(watch.wake, call.request.receive)
            with ended, contextlib.suppress(ClosedError):
                await watch.wait(query.wait)
        await slot.check()
    finally:
        slot.release()


def _answer(page: RecordPage, media: str, tag: str, *, is_known: bool) -> Response:
    headers = {
        "strandline-next-offset": str(page.next),
        "strandline-end-offset": str(page.marks.high),
        "strandline-oldest-offset": str(page.marks.low),
        "cache-control": "private, no-cache",
        "vary": "accept, authorization",
    }
    if page.next > page.start:
        # A page with records never changes, except for `end` and `oldest` in JSON.
        headers["etag"] = tag
        if is_known:
            return Response(status_code=304, headers=headers)
    return Response(page.body, 200, headers, media)


class PageReader:
    """Reads a page of a partition, in a thread."""

    def __init__(
        self, log: Log, topic: Topic, partition: int, query: ReadQuery, media: str
    ) -> None:
        self._log = log
        self._clock: Clock = parts_of(log).clock
        self._topic = topic
        self._partition = partition
        self._query = query
        self._media = media

    def start(self) -> int:
        """Return the offset at which to start."""
        return offset_of(self._log, self._topic, self._partition, self._query.start)

    def read(self, start: int) -> RecordPage:
        """Return the stored records from `start` on."""
        records = list(self._read(start))
        stop = records[-1].offset + 1 if records else start
        marks = self._log.marks(self._topic, self._partition)
        epochs = self._log.epochs(self._topic, self._partition)
        chosen = self._selected(records)
        if self._media == ARROW:
            body = self._arrow(start, stop, chosen)
        elif self._media == NDJSON:
            body = b"".join(_line(each) for each in chosen)
        else:
            answer = ReadAnswer([record_json(each) for each in chosen], stop, marks.high, marks.low)
            body = msgspec.json.encode(answer)
        return RecordPage(start, stop, marks, str(epochs[-1].id), body)

    def _read(self, start: int) -> Any:
        query = self._query
        return self._log.read(
            self._topic,
            self._partition,
            start,
            query.end,
            records_max=query.limit,
            bytes_max=query.bytes_max,
            durable_only=query.durable_only,
        )

    def _selected(self, records: Sequence[Record]) -> list[Record]:
        """Return the records that the predicate selects; of batches, only the selected rows."""
        if not self._query.predicate:
            return list(records)
        settings = self._log.describe_topic(self._topic).settings
        screen = screen_for(self._query.predicate, settings, self._clock.now_us())
        chosen = []
        for outcome in screen.sift(records):
            if isinstance(outcome, InvalidError):
                raise outcome
            if outcome is not None:
                chosen.append(outcome)
        return chosen

    def _arrow(self, start: int, stop: int, chosen: Sequence[Record]) -> bytes:
        batches = self._log.read_batches(self._topic, self._partition, start, stop)
        keep = self._keeping(batches.schema, chosen)
        names = [each for each in self._query.columns.split(",") if each] or batches.schema.names
        if strange := sorted(set(names) - set(batches.schema.names)):
            raise InvalidError("there are no such columns", columns=strange)
        sink = pa.BufferOutputStream()
        schema = pa.schema([batches.schema.field(each) for each in names])
        with pa.ipc.new_stream(sink, schema) as stream:
            for batch in batches:
                stream.write_batch(keep(batch).select(names))
        body: bytes = sink.getvalue().to_pybytes()
        return body

    def _keeping(self, schema: pa.Schema, chosen: Sequence[Record]) -> Any:
        """Return a filter of batches for the predicate."""
        if not self._query.predicate:
            return lambda batch: batch
        kind = self._log.describe_topic(self._topic).settings.value_kind
        if kind is ValueKind.BATCH:
            now_us = self._clock.now_us()
            return parse_predicate(self._query.predicate, schema, now_us=now_us).filter
        offsets = pa.array([each.offset for each in chosen], pa.int64())
        return lambda batch: batch.filter(
            pa.compute.is_in(batch.column("_offset"), value_set=offsets)
        )


def _line(record: Record) -> bytes:
    # In JSON a line break is only white space.
    return msgspec.json.encode(record_json(record)).replace(b"\n", b" ") + b"\n"


ENDPOINTS = (read_records,)
