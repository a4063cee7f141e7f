"""Commands that change a topic: add partitions, change limits, drop it."""

from collections.abc import Callable
from typing import Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import (
    Json,
    Tenant,
    TopicName,
    Url,
    existing,
    opened,
    parse_age,
    parse_size,
    topic_of,
)
from strandline.cli.screen import counted, show, show_json, show_table
from strandline.values import UNCHANGED, InvalidError, Limit, Mode, TopicDescription
from strandline.values.json_forms import moment, retention_json, topic_json


@command(
    "add-partitions",
    examples="""$ strandline add-partitions orders 4
        $ strandline add-partitions orders 8 --json""",
    answers="the topic, as `describe TOPIC` gives it.",
)
def add_partitions(
    topic: TopicName,
    partitions: Annotated[
        int, typer.Argument(metavar="N", min=1, help="The new total number of partitions.")
    ],
    *,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Add partitions to a topic. Most keys then belong to another partition.

    Readers see new partitions within a second; records are routed to them two seconds later.
    """
    with existing(url, Mode.WRITE) as log:
        found = log.add_partitions(topic_of(log, topic, tenant), partitions)
    if json:
        show_json(topic_json(found))
    else:
        show(f"{topic}: {partitions} partitions")


@command(
    "declare",
    examples="""$ strandline declare orders "amount BIGINT, customer.country STRING"
        $ strandline declare orders --json
        $ strandline declare orders --remove""",
    answers="{topic, tenant, payload, payload_schema}: the declaration as text, null if there "
    "is none or it has no such text; and each field with its Arrow type.",
)
def declare(
    topic: TopicName,
    fields: Annotated[
        str | None, typer.Argument(metavar="[FIELDS]", help="Names and types; without, show them.")
    ] = None,
    *,
    url: Url = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the declaration.")] = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Show or change the declared payload fields of a topic, which predicates use.

    Fields are separated by commas; dots lead into objects, [] into arrays. Types are STRING,
    BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, DOUBLE, DECIMAL(p,s), DATE, TIMESTAMP, VARIANT.
    Stored records are not changed, and running readers keep the earlier declaration.
    """
    if fields is not None and remove:
        raise InvalidError("either declare fields or --remove them")
    from strandline.values import payload_text  # noqa: PLC0415 It needs Arrow.

    declared = None if fields is None else payload_text.parse_payload_schema(fields)
    is_change = remove or declared is not None
    with existing(url, Mode.WRITE if is_change else Mode.READ) as log:
        found = topic_of(log, topic, tenant)
        if is_change:
            log.declare_payload(found, declared)
        settings = log.describe_topic(found).settings
    present = settings.payload_schema
    text = None if present is None else payload_text.shown_payload_text(present)
    shown = settings.shown_payload_schema()
    if json:
        show_json({"topic": topic, "tenant": tenant, "payload": text, "payload_schema": shown})
    else:
        show(f"{topic}: {text or shown or 'nothing is declared'}")


@command(
    "retention",
    examples="""$ strandline retention orders --age 30d --bytes 10GiB
        $ strandline retention orders --age none --json
        $ strandline retention""",
    answers="{topics: [{topic, tenant, retention_age_s, retention_bytes, limit_bytes, ran_at, "
    "removed, pid, host, until, held: [{partition, offset, consumers}, …]}, …]}.",
)
def retention(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="A topic; by default all with limits.")
    ] = None,
    *,
    url: Url = None,
    age: Annotated[
        str | None,
        typer.Option("--age", metavar="AGE", help="Remove older records; or none."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--bytes", metavar="SIZE", help="Keep at most this per partition; or none."),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit-bytes", metavar="SIZE", help="Also if a consumer is behind; or none."
        ),
    ] = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Show retention limits, the last run and what holds it back; or change the limits.

    With a topic and --age, --bytes or --limit-bytes: change these limits. Limits that are not
    given stay unchanged.
    """
    from strandline.log.store import still_there  # noqa: PLC0415 See `opened`.

    if age is None and size is None and limit is None:
        with opened(url, Mode.READ) as log:
            if topic is not None:
                found = [log.describe_topic(topic_of(log, topic, tenant))]
            else:
                each = still_there(log.topics(tenant=tenant), log.describe_topic)
                found = [one for one in each if one.settings.has_limits]
    else:
        if topic is None:
            raise InvalidError("name the topic whose limits to change")
        with existing(url, Mode.WRITE) as log:
            changed = log.change_retention(
                topic_of(log, topic, tenant),
                retention_age_s=UNCHANGED if age is None else _limit(age, parse_age),
                retention_bytes=UNCHANGED if size is None else _limit(size, parse_size),
                limit_bytes=UNCHANGED if limit is None else _limit(limit, parse_size),
            )
        found = [changed]
    shown = [retention_json(one) for one in found]
    if json:
        show_json({"topics": shown})
        return
    show_table(
        ("topic", "age, s", "bytes", "limit bytes", "last run", "removed", "by", "held back by"),
        [_row(one) for one in found],
    )


@command(
    "drop",
    examples="""$ strandline create old
        $ strandline drop old --yes --json""",
    answers="{topic, tenant, records}: what was removed.",
)
def drop(
    topic: TopicName,
    *,
    url: Url = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it; without, only show what it holds.")
    ] = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Remove a topic with its records and consumers, for good."""
    with existing(url, Mode.WRITE) as log:
        found = log.describe_topic(topic_of(log, topic, tenant))
        if not yes:
            raise InvalidError(
                "this removes the topic for good, pass --yes to do so",
                topic=topic,
                records=found.records,
                consumers=sorted({each.consumer for each in log.consumers(found.topic)}),
            )
        log.drop_topic(found.topic)
    if json:
        show_json({"topic": topic, "tenant": tenant, "records": found.records})
    else:
        show(f"{topic}: dropped, with {counted(found.records, 'record')}")


def _limit(text: str, parse: Callable[[str], int]) -> Limit:
    return None if text == "none" else parse(text)


def _row(found: TopicDescription) -> tuple[object, ...]:
    settings, status = found.settings, found.retention
    limits = (settings.retention_age_s, settings.retention_bytes, settings.limit_bytes)
    if status is None:
        return (found.topic.name, *limits, None, None, None, None)
    held = [f"{'|'.join(each.consumers)} at {each.partition}:{each.offset}" for each in status.held]
    ran_at = moment(status.ran_at_us)
    by = f"{status.pid} on {status.host}"
    return (found.topic.name, *limits, ran_at, status.removed, by, ", ".join(held) or None)
