"""Commands about records that a consumer could not deal with."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from strandline.cli.command import command, new_app
from strandline.cli.options import Json, Tenant, TopicName, Url, existing, opened, topic_of
from strandline.cli.screen import show_json, show_table
from strandline.values import Mode

if TYPE_CHECKING:
    from strandline.triggers import Parked

_OURS = "strandline."
_ANSWER = (
    "{topic, parked: [{offset, consumer, deliveries, reason, partition, record_offset, kind, key, "
    "payload, headers, is_replayed}, …]}: `offset` is its place in the parking topic, "
    "`partition` and `record_offset` that in its own."
)

_Consumer = Annotated[
    str | None, typer.Option("--consumer", metavar="NAME", help="Of this one; else of all.")
]

app = new_app("See and replay records that a consumer could not deal with.")


@command(
    "list",
    examples="""$ strandline park list orders
        $ strandline park list orders --consumer billing --json""",
    answers=_ANSWER,
)
def list_parked(
    topic: TopicName,
    *,
    url: Url = None,
    consumer: _Consumer = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """List what is parked of a topic, oldest first, and why."""
    from strandline.triggers import parked_records  # noqa: PLC0415 Takes long to import.

    with opened(url, Mode.READ) as log:
        found = list(parked_records(log, topic_of(log, topic, tenant), consumer=consumer))
    _show(topic, found, json=json)


@command(
    "replay",
    examples="""$ strandline park replay orders --consumer billing
        $ strandline park replay orders --offset 0 --json""",
    answers=_ANSWER[:-1] + "; what was handed over by this call alone.",
)
def replay(
    topic: TopicName,
    *,
    url: Url = None,
    consumer: _Consumer = None,
    offset: Annotated[
        list[int] | None,
        typer.Option("--offset", metavar="N", min=0, help="In the parking topic. May be repeated."),
    ] = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Hand parked records once more to the triggers and consumers that parked them.

    Each goes once, however often this is called; one that fails again is parked anew. One
    that does not run gets them when it does. Others see nothing of it. Refused if one of
    them was forgotten: choose others with --consumer.
    """
    from strandline.triggers import replay_parked  # noqa: PLC0415 Takes long to import.

    with existing(url, Mode.CONSUME) as log:
        found = replay_parked(
            log, topic_of(log, topic, tenant), consumer=consumer, offsets=offset or None
        )
    _show(topic, found, json=json)


def _show(topic: str, found: "list[Parked]", *, json: bool) -> None:
    if json:
        show_json({"topic": topic, "parked": [_parked_json(each) for each in found]})
        return
    show_table(
        ("offset", "consumer", "deliveries", "record", "kind", "replayed", "reason"),
        [
            (
                each.offset,
                each.consumer,
                each.deliveries,
                f"{each.partition}/{each.record_offset}",
                each.event.kind,
                each.is_replayed,
                each.reason,
            )
            for each in found
        ],
    )


def _parked_json(parked: "Parked") -> dict[str, object]:
    headers = parked.event.headers
    return {
        "offset": parked.offset,
        "consumer": parked.consumer,
        "deliveries": parked.deliveries,
        "reason": parked.reason,
        "partition": parked.partition,
        "record_offset": parked.record_offset,
        "kind": parked.event.kind,
        "key": parked.event.key,
        "payload": msgspec.Raw(parked.event.payload_json),
        "headers": {name: each for name, each in headers.items() if not name.startswith(_OURS)},
        "is_replayed": parked.is_replayed,
    }


list_parked.add_to(app)
replay.add_to(app)
