"""Commands about consumers: their progress, and moving their cursors."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import (
    Json,
    OnePartition,
    SomePartition,
    Tenant,
    TopicName,
    Url,
    existing,
    offset_of,
    opened,
    parse_start,
    partitions_of,
    topic_of,
)
from strandline.cli.screen import show, show_json, show_table
from strandline.values import ConsumerLag, Mode
from strandline.values.json_forms import lag_json, moment

_COLUMNS = {
    "consumer": "consumer",
    "tenant": "tenant",
    "partition": "partition",
    "cursor": "cursor",
    "lag": "lag",
    "lag_s": "lag, s",
    "trend": "trend/s",
    "seen_at": "last seen",
    "is_live": "live",
    "member": "member",
    "held_since": "since",
    "reason": "why",
}

_HOLDER_COLUMNS = {
    "role": "role",
    "topic": "topic",
    "partition": "partition",
    "name": "consumer",
    "host": "host",
    "pid": "pid",
    "since": "since",
    "is_live": "live",
}

_Consumer = Annotated[str, typer.Argument(metavar="CONSUMER", help="The consumer's name.")]
_ConsumerTenant = Annotated[
    str | None,
    typer.Option("--consumer-tenant", metavar="NAME", help="The consumer's tenant, if shared."),
]


@command(
    "consumers",
    examples="""$ strandline ack orders mailer --to 2
        $ strandline consumers orders
        $ strandline consumers orders --json""",
    answers="{topic, consumers: [{consumer, tenant, partition, cursor, lag, lag_s, trend, "
    "seen_at, is_live, holds_retention, member, held_since, generation, reason}, …]}.",
)
def consumers(
    topic: TopicName,
    *,
    url: Url = None,
    tenant: Tenant = None,
    consumer_tenant: _ConsumerTenant = None,
    json: Json = False,
) -> None:
    """List the consumers of a topic: their lag, and which member holds which partition, and why."""
    with opened(url, Mode.READ) as log:
        found = log.consumers(topic_of(log, topic, tenant), tenant=consumer_tenant or tenant)
    _show(topic, found, json=json)


@command(
    "ack",
    examples="$ strandline ack orders mailer --to 3",
    answers="as `consumers`, for only this one.",
)
def ack(
    topic: TopicName,
    consumer: _Consumer,
    to: Annotated[
        int, typer.Option("--to", metavar="OFFSET", min=0, help="One past the last handled record.")
    ],
    *,
    url: Url = None,
    partition: OnePartition = 0,
    tenant: Tenant = None,
    consumer_tenant: _ConsumerTenant = None,
    json: Json = False,
) -> None:
    """Acknowledge everything before an offset for a consumer. Never goes back."""
    with existing(url, Mode.CONSUME) as log:
        found, whose = topic_of(log, topic, tenant), consumer_tenant or tenant
        log.ack(found, consumer, partition, to, tenant=whose)
        lags = log.consumers(found, tenant=whose)
    _show(topic, [each for each in lags if each.consumer == consumer], json=json)


@command(
    "seek",
    examples="""$ strandline seek orders mailer earliest
        $ strandline seek orders mailer 4 --partition 0
        $ strandline seek orders mailer 2026-03-01T12:00:00Z""",
    answers="as `consumers`, for only this one.",
)
def seek(
    topic: TopicName,
    consumer: _Consumer,
    place: Annotated[
        str,
        typer.Argument(
            metavar="PLACE", help="earliest, latest, an offset, a time, an age such as 15m."
        ),
    ],
    *,
    url: Url = None,
    partition: SomePartition = None,
    tenant: Tenant = None,
    consumer_tenant: _ConsumerTenant = None,
    json: Json = False,
) -> None:
    """Move a consumer's cursor, forwards or back; creates the consumer if there is none."""
    start = parse_start(place)
    with existing(url, Mode.CONSUME) as log:
        found, whose = topic_of(log, topic, tenant), consumer_tenant or tenant
        for number in partitions_of(log, found, partition):
            offset = offset_of(log, found, number, start)
            log.seek(found, consumer, number, offset, tenant=whose)
        lags = log.consumers(found, tenant=whose)
    _show(topic, [each for each in lags if each.consumer == consumer], json=json)


@command(
    "forget",
    examples="""$ strandline seek orders mailer earliest
        $ strandline forget orders mailer --json""",
    answers="{topic, consumer, tenant, is_removed}.",
)
def forget(
    topic: TopicName,
    consumer: _Consumer,
    *,
    url: Url = None,
    tenant: Tenant = None,
    consumer_tenant: _ConsumerTenant = None,
    json: Json = False,
) -> None:
    """Remove a consumer's cursors. It no longer holds back retention, and would start over."""
    with existing(url, Mode.CONSUME) as log:
        found, whose = topic_of(log, topic, tenant), consumer_tenant or tenant
        is_removed = log.delete_consumer(found, consumer, tenant=whose)
    if json:
        answer = {"topic": topic, "consumer": consumer, "tenant": whose, "is_removed": is_removed}
        show_json(answer)
    else:
        show(f"{consumer}: {'forgotten' if is_removed else 'there was none'}")


@command(
    "lag",
    examples="""$ strandline ack orders mailer --to 2
        $ strandline lag
        $ strandline lag --json""",
    answers="{lag, consumers: [{topic, consumer, tenant, partition, cursor, lag, seen_at, "
    "is_live}, …]}, the furthest behind first.",
)
def lag(
    *,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """List the lag of each consumer of each topic, and the total."""
    with opened(url, Mode.READ) as log:
        topics = log.topics(tenant=tenant)
        found = [(each.name, one) for each in topics for one in log.consumers(each, tenant=tenant)]
    found.sort(key=lambda each: (-each[1].lag, each[0], each[1].consumer, each[1].partition))
    shown = [{"topic": name, **lag_json(each)} for name, each in found]
    if json:
        show_json({"lag": sum(each.lag for _, each in found), "consumers": shown})
        return
    rows = [(each["topic"], *(each[name] for name in _COLUMNS)) for each in shown]
    show_table(("topic", *_COLUMNS.values()), rows)


def _show(topic: str, lags: Sequence[ConsumerLag], *, json: bool) -> None:
    shown = [lag_json(each) for each in lags]
    if json:
        show_json({"topic": topic, "consumers": shown})
        return
    rows = [tuple(each[name] for name in _COLUMNS) for each in shown]
    show_table(tuple(_COLUMNS.values()), rows)


@command(
    "holders",
    examples="""$ strandline holders
        $ strandline holders --json""",
    answers="{holders: [{role, topic, tenant, partition, name, pid, host, since, is_live}, …]}: "
    "role is writer, session, consumer or worker; without a topic it is the whole log.",
)
def holders(*, url: Url = None, json: Json = False) -> None:
    """Show which processes hold the log: its writers, and the members of its consumers.

    A writer is the process that holds the lock of a partition, or held it last (in sqlite:, of
    the whole log); is_live tells whether it still exists. A session is a process with a
    connection to a log in PostgreSQL. A consumer holds a partition under a lease, and a worker
    is a member of a work queue.
    """
    from strandline.log.holders import holders_of  # noqa: PLC0415 Takes long to import.

    with opened(url, Mode.READ) as log:
        found = [{**asdict(each), "since": moment(each.since_us)} for each in holders_of(log)]
    for each in found:
        del each["since_us"]
    if json:
        show_json({"holders": found})
        return
    for each in found:
        # Text, so without a thousands separator, to be pasted.
        each["pid"] = None if each["pid"] is None else str(each["pid"])
    show_table(
        tuple(_HOLDER_COLUMNS.values()),
        [tuple(each[name] for name in _HOLDER_COLUMNS) for each in found],
    )
