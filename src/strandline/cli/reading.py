"""Commands that show records: a range, or the newest ones as they are appended."""

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from strandline.cli.command import command
from strandline.cli.options import (
    Json,
    SomePartition,
    Tenant,
    TopicName,
    Url,
    offset_of,
    opened,
    parse_start,
    partitions_of,
    topic_of,
)
from strandline.cli.screen import counted, flush, printable, show, show_json, to_json
from strandline.values import Event, InvalidError, Mode, Record, Topic
from strandline.values.arguments import INT64_MAX
from strandline.values.json_forms import moment, record_json
from strandline.values.json_rows import jsonable, rows_of

if TYPE_CHECKING:
    from strandline.log import Log
    from strandline.subscriptions import Subscription

_FIELDS = (
    "a line for each record: {topic, partition, offset, timestamp, key, tenant}, followed for an "
    "event by {kind, payload, headers, occurred_at}, for bytes by {value: base64}, for a batch by "
    "{rows}, where times and decimals are text, durations numbers of their unit, binary base64."
)
_LAST = 10
#: How long to wait for a page that is not available at once.
_PATIENCE_S = 0.1

_FROM = typer.Option(
    "--from", metavar="PLACE", help="earliest, latest, an offset, a time, or an age such as 15m."
)
_From = Annotated[str | None, _FROM]
_FromEarliest = Annotated[str, _FROM]
_Where = Annotated[
    str, typer.Option(metavar="SQL", help="Only records that match, e.g. kind = 'order.paid'.")
]
_Durable = Annotated[bool, typer.Option("--durable-only", help="Only records that are durable.")]


@command(
    "read",
    examples="""$ strandline read orders
        $ strandline read orders --from 2 --limit 2 --json
        $ strandline read orders --where "kind = 'order.paid' AND key LIKE 'c-%'"
        $ strandline read orders --json | head -n 1""",
    answers=_FIELDS,
)
def read(
    topic: TopicName,
    *,
    url: Url = None,
    start: _FromEarliest = "earliest",
    where: _Where = "",
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", metavar="N", min=0, max=INT64_MAX, help="No more than these."
        ),
    ] = None,
    partition: SomePartition = None,
    durable_only: _Durable = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Show the current records, in the order of their timestamps.

    --where is a predicate of docs/reference/predicates.md. Events have the columns kind,
    key, headers, occurred_at and timestamp; batches have their own, and only rows that
    match are shown.
    """
    with opened(url, Mode.READ) as log:
        found = topic_of(log, topic, tenant)
        source = _source(log, found, partition, where, durable_only=durable_only)
        records = source.records(source.at(start), source.ends())
        _show_all(itertools.islice(records, limit), json=json)


@command(
    "tail",
    examples="""$ strandline tail orders -n 2
        $ strandline tail orders --from 15m --json
        $ timeout 2 strandline tail orders --follow --where "key = 'c-9'" || true""",
    answers=_FIELDS,
)
def tail(
    topic: TopicName,
    *,
    url: Url = None,
    start: _From = None,
    where: _Where = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new records, until Ctrl-C.")
    ] = False,
    count: Annotated[
        int,
        typer.Option(
            "-n", metavar="N", min=0, max=INT64_MAX, help="How many, if --from is not given."
        ),
    ] = _LAST,
    partition: SomePartition = None,
    durable_only: _Durable = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Show the newest records, and with --follow new ones as they are appended."""
    with opened(url, Mode.READ) as log:
        found = topic_of(log, topic, tenant)
        source = _source(log, found, partition, where, durable_only=durable_only)
        ends, lows = source.ends(), source.at("earliest")
        if start is not None:
            starts = source.at(start)
            _show_all(source.records(starts, ends), json=json)
            ends = {each: max(starts[each], end) for each, end in ends.items()}
        elif count:
            if not where:
                lows = {each: max(low, ends[each] - count) for each, low in lows.items()}
            _show_all(deque(source.records(lows, ends), maxlen=count), json=json)
        if follow:
            _follow(source, ends, json=json)


class _Source(NamedTuple):
    """The records that a command shows."""

    log: "Log"
    topic: Topic
    partitions: Sequence[int]
    where: str
    durable_only: bool

    def at(self, place: str) -> dict[int, int]:
        """Return the offset of a place in each partition."""
        start = parse_start(place)
        if isinstance(start, int) and len(self.partitions) > 1:
            self._check_reached(start)
        return {each: offset_of(self.log, self.topic, each, start) for each in self.partitions}

    def _check_reached(self, start: int) -> None:
        for each in self.partitions:
            end = self.log.marks(self.topic, each).high
            if start > end:
                raise InvalidError(
                    "this offset lies beyond the end of a partition: name the partition that it "
                    "is of with --partition, or start at a time",
                    offset=start,
                    partition=each,
                    end=end,
                )

    def ends(self) -> dict[int, int]:
        """Return the current end of each partition."""
        marks = {each: self.log.marks(self.topic, each) for each in self.partitions}
        return {
            number: each.durable if self.durable_only else each.high
            for number, each in marks.items()
        }

    def records(self, starts: dict[int, int], ends: dict[int, int]) -> Iterator[Record]:
        """Return the records of all partitions in the order of their timestamps."""
        reads = [self._records_of(each, starts[each], ends[each]) for each in self.partitions]
        return heapq.merge(*reads, key=lambda each: each.timestamp_us)

    def _records_of(self, partition: int, start: int, end: int) -> Iterator[Record]:
        if start > end or not self.where:
            # It raises for a start beyond the end, unless it is only beyond the durable end.
            stop = max(start, end) if self.durable_only else None
            yield from self.log.read(self.topic, partition, start, stop or end)
            return
        with self.follow({partition: start}) as arriving:
            while arriving.assignment.position(partition) < end:
                record = arriving.next(_PATIENCE_S)
                if record is not None and record.offset < end:
                    yield record

    def follow(self, starts: dict[int, int]) -> "Subscription[Record]":
        """Return the records from `starts` on, and new ones as they are appended."""
        return self.log.subscribe(
            self.topic, start=starts, where=self.where, durable_only=self.durable_only
        )


def _source(
    log: "Log", topic: Topic, partition: int | None, where: str, *, durable_only: bool
) -> _Source:
    return _Source(log, topic, partitions_of(log, topic, partition), where, durable_only)


def _follow(source: _Source, starts: dict[int, int], *, json: bool) -> None:
    with source.follow(starts) as arriving:
        flush()
        for record in arriving:
            _show_all((record,), json=json)
            flush()


def _show_all(records: Iterable[Record], *, json: bool) -> None:
    for record in records:
        if json:
            show_json(record_json(record))
        else:
            show(_line(record))


def _line(record: Record) -> str:
    """Return a record for people: position, time, key, kind and payload on one line."""
    value = record.value
    place = f"{record.partition}/{record.offset}"
    begin = f"{place:<10} {moment(record.timestamp_us)}"
    key = "-" if record.key is None else printable(record.key)
    if isinstance(value, Event):
        return f"{begin}  {key}  {value.kind}  {printable(value.payload_json.decode())}"
    if isinstance(value, bytes):
        return f"{begin}  {key}  {printable(value.decode(errors='backslashreplace'))}"
    rows = counted(value.num_rows, "row")
    first = "".join(f": {to_json(jsonable(each))}" for each in rows_of(value.slice(0, 1)))
    return f"{begin}  {key}  {rows}{first}{', …' if value.num_rows > 1 else ''}"
