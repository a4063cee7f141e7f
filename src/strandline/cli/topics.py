"""Commands about topics: which there are, making one, what it holds, removing its oldest."""

from typing import TYPE_CHECKING, Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import (
    Json,
    SomePartition,
    Tenant,
    TopicName,
    Url,
    existing,
    offset_of,
    opened,
    parse_age,
    parse_size,
    parse_start,
    partitions_of,
    topic_of,
)
from strandline.cli.screen import counted, show, show_fields, show_json, show_table
from strandline.values import InvalidError, Mode, TopicOptions, TrimReport, ValueKind
from strandline.values.json_forms import log_json, topic_json, trim_json

if TYPE_CHECKING:
    import pyarrow as pa

_Kind = Annotated[
    ValueKind | None,
    typer.Option(
        "--kind", "-k", help="What its records hold, event if not given.", case_sensitive=False
    ),
]


@command(
    "topics",
    examples="""$ strandline topics
        $ strandline topics --json""",
    answers="{topics: [topic, …]}, each as `describe TOPIC` gives it.",
)
def topics(
    *,
    url: Url = None,
    tenant: Tenant = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Those that strandline keeps for itself.")
    ] = False,
    json: Json = False,
) -> None:
    """List the topics, with how much they hold."""
    from strandline.log.store import still_there  # noqa: PLC0415 See `opened`.

    with opened(url, Mode.READ) as log:
        listed = log.topics(tenant=tenant, internal=internal)
        found = list(still_there(listed, log.describe_topic))
    if json:
        show_json({"topics": [topic_json(each) for each in found]})
        return
    show_table(
        ("topic", "kind", "partitions", "records", "bytes"),
        [
            (
                each.topic.name,
                str(each.settings.value_kind),
                each.settings.partitions,
                each.records,
                each.size_bytes,
            )
            for each in found
        ],
    )


@command(
    "describe",
    examples="""$ strandline describe
        $ strandline describe orders --json""",
    answers="of a log {id, backend, location, durability_max, topics, partitions, records, "
    "size_bytes}; of a topic {name, tenant, id, kind, created_at, retention_age_s, "
    "retention_bytes, limit_bytes, proof, payload_schema, source, records, size_bytes, "
    "partitions: [{partition, low, high, durable}, …]}.",
)
def describe(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="A topic; else the log.")
    ] = None,
    *,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Show what the log, or one topic, is and holds. Nothing is changed."""
    from strandline.opening import describe as describe_log  # noqa: PLC0415 See `opened`.

    if topic is None:
        found = log_json(describe_log(url))
    else:
        with opened(url, Mode.READ) as log:
            found = topic_json(log.describe_topic(topic_of(log, topic, tenant)))
    if json:
        show_json(found)
        return
    partitions = found.pop("partitions") if topic is not None else None
    show_fields(found)
    if isinstance(partitions, list):
        show("")
        show_table(
            ("partition", "low", "high", "durable"),
            [tuple(each.values()) for each in partitions],
        )


@command(
    "create",
    examples="""$ strandline create payments --partitions 4 --retention-age 30d
        $ strandline create frames --kind bytes --limit-bytes 10GiB
        $ strandline create sales --payload "amount BIGINT, customer.country STRING\"""",
    answers="the topic, as `describe TOPIC` gives it.",
)
def create(
    topic: TopicName,
    *,
    url: Url = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", metavar="N", min=1, help="How many, 1 if not given."),
    ] = None,
    kind: _Kind = None,
    retention_age: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Remove records older than this, such as 30d."),
    ] = None,
    retention_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Keep this much of a partition, such as 10GiB."),
    ] = None,
    limit_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Keep no more, though a consumer is behind."),
    ] = None,
    proof: Annotated[
        bool, typer.Option("--proof", help="Chain the records, so that changes are found.")
    ] = False,
    payload: Annotated[
        str | None,
        typer.Option(metavar="FIELDS", help="What payloads have, such as `amount BIGINT`."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The topic of Kafka's, which other programs write."),
    ] = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Create a topic, and the log if there is none.

    A topic that exists with the same settings is left as it is.
    """
    chosen: TopicOptions = {
        "retention_age_s": None if retention_age is None else parse_age(retention_age),
        "retention_bytes": None if retention_bytes is None else parse_size(retention_bytes),
        "limit_bytes": None if limit_bytes is None else parse_size(limit_bytes),
        "proof": proof,
        "payload_schema": None if payload is None else _payload_schema(payload),
        "source": source,
    }
    if partitions is not None:
        chosen["partitions"] = partitions
    if kind is not None:
        chosen["value_kind"] = kind
    with opened(url, Mode.WRITE) as log:
        found = log.describe_topic(log.create_topic(topic, tenant=tenant, **chosen))
    if json:
        show_json(topic_json(found))
    else:
        count = found.settings.partitions
        show(f"{topic}: {found.settings.value_kind}, {counted(count, 'partition')}")


def _payload_schema(fields: str) -> "pa.Schema":
    from strandline.values.payload_text import parse_payload_schema  # noqa: PLC0415 It needs Arrow.

    return parse_payload_schema(fields)


@command(
    "trim",
    examples="""$ strandline trim orders --before 2
        $ strandline trim orders --before 30d --force
        $ strandline trim orders --retention --json""",
    answers="{topic, partitions: [{partition, removed, remaining, low, held_at, latest, "
    "is_released}, …]}.",
)
def trim(
    topic: TopicName,
    *,
    url: Url = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="An offset, a time, an age such as 30d, latest."),
    ] = None,
    retention: Annotated[
        bool, typer.Option("--retention", help="What the topic's retention does not keep.")
    ] = False,
    partition: SomePartition = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also what a consumer has not acked.")
    ] = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Remove the oldest records. Offsets stay as they are.

    An offset beyond the end of a partition stands for its end.
    """
    if (before is None) == (not retention):
        raise InvalidError("say what to remove: either --before or --retention")
    with existing(url, Mode.WRITE) as log:
        found = topic_of(log, topic, tenant)
        reports: list[TrimReport] = []
        if before is None:
            reports += log.apply_retention(found)
        else:
            start = parse_start(before)
            for number in partitions_of(log, found, partition):
                high = log.marks(found, number).high
                offset = min(offset_of(log, found, number, start), high)
                reports.append(log.trim(found, number, offset, force=force))
    shown = [trim_json(each) for each in reports]
    if json:
        show_json({"topic": topic, "partitions": shown})
    else:
        show_table(
            ("partition", "removed", "remaining", "low", "held at", "latest", "released"),
            [tuple(each.values()) for each in shown],
        )
