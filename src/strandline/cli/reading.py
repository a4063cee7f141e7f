"""Commands that show records: all of a range, or the end as it grows."""

import heapq
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

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
from strandline.cli.screen import show, show_json
from strandline.cli.shown import record_json, record_line
from strandline.values import Mode, Record, Topic

if TYPE_CHECKING:
    from strandline.subscriptions import SubscribableLog

_FIELDS = (
    "a line for each record: {topic, partition, offset, timestamp, key, tenant}, then of an "
    "event {kind, payload, headers, occurred_at}, of bytes {value: base64}, of a batch {rows}."
)
_LAST = 10

_From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="PLACE",
        help="earliest, latest, an offset, a time, or an age such as 15m.",
    ),
]
_Durable = Annotated[
    bool, typer.Option("--durable-only", help="Only what survives a loss of power.")
]


@command(
    "read",
    examples="""$ strandline read orders
        $ strandline read orders --from 2 --limit 2 --json
        $ strandline read orders --json | head -n 1""",
    answers=_FIELDS,
)
def read(
    topic: TopicName,
    *,
    url: Url = None,
    start: _From = "earliest",
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=0, help="No more than these."),
    ] = None,
    partition: SomePartition = None,
    durable_only: _Durable = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Show the records that there are now, in the order of their timestamps."""
    with opened(url, Mode.READ) as log:
        found = topic_of(log, topic, tenant)
        starts = _starts(log, found, partition, start or "earliest")
        records = _merged(log, found, starts, durable_only=durable_only)
        _show_all(itertools.islice(records, limit), json=json)


@command(
    "tail",
    examples="""$ strandline tail orders -n 2
        $ strandline tail orders --from 15m --json
        $ timeout 1 strandline tail orders --follow || true""",
    answers=_FIELDS,
)
def tail(
    topic: TopicName,
    *,
    url: Url = None,
    start: _From = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as the topic grows, until Ctrl-C.")
    ] = False,
    count: Annotated[
        int, typer.Option("-n", metavar="N", min=0, help="How many, where --from is not given.")
    ] = _LAST,
    partition: SomePartition = None,
    durable_only: _Durable = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Show the newest records, and with --follow those that come."""
    with opened(url, Mode.READ) as log:
        found = topic_of(log, topic, tenant)
        ends = _starts(log, found, partition, "latest", durable_only=durable_only)
        if start is None:
            lows = _starts(log, found, partition, "earliest")
            starts = {each: max(lows[each], end - count) for each, end in ends.items()}
            newest = list(_merged(log, found, starts, ends))[-count:] if count else []
            _show_all(newest, json=json)
        else:
            starts = _starts(log, found, partition, start)
            _show_all(_merged(log, found, starts, ends), json=json)
            ends = {each: max(starts[each], end) for each, end in ends.items()}
        if follow:
            _follow(log, found, ends, durable_only=durable_only, json=json)


def _starts(
    log: "SubscribableLog",
    topic: Topic,
    partition: int | None,
    place: str,
    *,
    durable_only: bool = False,
) -> dict[int, int]:
    start = parse_start(place)
    numbers = partitions_of(log, topic, partition)
    if durable_only:
        return {number: log.marks(topic, number).durable for number in numbers}
    return {number: offset_of(log, topic, number, start) for number in numbers}


def _merged(
    log: "SubscribableLog",
    topic: Topic,
    starts: dict[int, int],
    ends: dict[int, int] | None = None,
    *,
    durable_only: bool = False,
) -> Iterator[Record]:
    """Return the records of several partitions in the order of their timestamps."""
    reads = [
        log.read(
            topic,
            number,
            start,
            None if ends is None else max(start, ends[number]),
            durable_only=durable_only,
        )
        for number, start in starts.items()
    ]
    return heapq.merge(*reads, key=lambda each: each.timestamp_us)


def _follow(
    log: "SubscribableLog",
    topic: Topic,
    starts: dict[int, int],
    *,
    durable_only: bool,
    json: bool,
) -> None:
    with log.subscribe(topic, start=starts, durable_only=durable_only) as arriving:
        sys.stdout.flush()
        for record in arriving:
            _show_all((record,), json=json)
            sys.stdout.flush()


def _show_all(records: Iterable[Record], *, json: bool) -> None:
    for record in records:
        if json:
            show_json(record_json(record))
        else:
            show(record_line(record))
