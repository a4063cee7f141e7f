"""Commands about dead letters: records that a consumer could not handle."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from strandline.cli.command import command, new_app
from strandline.cli.options import Json, Tenant, TopicName, Url, existing, opened, topic_of
from strandline.cli.screen import show, show_fields, show_json, show_table
from strandline.values import Mode
from strandline.values.json_forms import moment

if TYPE_CHECKING:
    from strandline.triggers import DeadLetter

_ANSWER = (
    "{topic, dead_letters: [{offset, consumer, deliveries, reason, partition, record_offset, kind, "
    "key, payload, headers, is_redriven, dead_lettered_at}, …]}: `offset` is the position in the "
    "dead-letter topic, `partition` and `record_offset` that in the original topic."
)

_Consumer = Annotated[
    str | None, typer.Option("--consumer", metavar="NAME", help="Only of this one.")
]

_Where = Annotated[
    str,
    typer.Option("--where", metavar="PREDICATE", help="Only if the original record matches."),
]

_Offsets = Annotated[
    list[int] | None,
    typer.Option("--offset", metavar="N", min=0, help="In the dead-letter topic. May be repeated."),
]

app: Final = new_app(
    "List, redrive and discard dead letters: records that a consumer could not handle."
)


@command(
    "list",
    examples="""$ strandline dead-letters list orders
        $ strandline dead-letters list orders --where "kind = 'order.placed'"
        $ strandline dead-letters list orders --consumer billing --json""",
    answers=_ANSWER,
)
def list_dead_letters(
    topic: TopicName,
    *,
    url: Url = None,
    consumer: _Consumer = None,
    where: _Where = "",
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """List a topic's dead letters, oldest first, with their reasons."""
    from strandline.triggers import dead_letters  # noqa: PLC0415 Takes long to import.

    with opened(url, Mode.READ) as log:
        topic_found = topic_of(log, topic, tenant)
        found = list(dead_letters(log, topic_found, consumer=consumer, where=where))
    _show(topic, found, json=json)


@command(
    "show",
    examples="""$ strandline dead-letters show orders 0
        $ strandline dead-letters show orders 0 --json""",
    answers=_ANSWER[:-1] + "; one for each time that this consumer dead-lettered the record.",
)
def show_dead_letter(
    topic: TopicName,
    offset: Annotated[
        int, typer.Argument(metavar="OFFSET", min=0, help="In the dead-letter topic.")
    ],
    *,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Show a dead letter: its value, and the reason and deliveries of each attempt."""
    from strandline.subscriptions.redriving import (  # noqa: PLC0415 Takes long to import.
        attempts,
        dead_letter_json,
    )

    with opened(url, Mode.READ) as log:
        found = attempts(log, topic_of(log, topic, tenant), offset)
    if json:
        _show(topic, found, json=True)
        return
    last = dead_letter_json(found[-1])
    shown = ("consumer", "partition", "record_offset", "kind", "key", "headers")
    show_fields({name: last[name] for name in shown})
    show_fields({"payload": found[-1].event.payload_json.decode()})
    show("")
    show_table(
        ("offset", "dead-lettered at", "deliveries", "redriven", "cause"),
        [
            (each.offset, moment(each.timestamp_us), each.deliveries, each.is_redriven, each.reason)
            for each in found
        ],
    )


@command(
    "redrive",
    examples="""$ strandline dead-letters redrive orders --dry-run
        $ strandline dead-letters redrive orders --consumer billing
        $ strandline create retried
        $ strandline dead-letters redrive orders --offset 0 --to retried --json
        $ strandline dead-letters redrive orders --where "payload.amount < 100" --json""",
    answers=_ANSWER[:-1] + "; only what this call has redriven.",
)
def redrive(
    topic: TopicName,
    *,
    url: Url = None,
    consumer: _Consumer = None,
    offset: _Offsets = None,
    where: _Where = "",
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TOPIC", help="Append them to this topic instead."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be redriven, and do nothing.")
    ] = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Deliver dead letters again to the triggers and consumers that could not handle them.

    Each is redriven once, however often this is called; one that fails again becomes a new
    dead letter. A consumer that is not running gets them when it runs. Other consumers do not
    see them. Refused if one of the consumers was removed: choose others with --consumer.
    """
    from strandline.triggers import redrive  # noqa: PLC0415 Takes long to import.

    # Appending to another topic needs more than the mode consume.
    with existing(url, Mode.CONSUME if to is None else Mode.WRITE) as log:
        found = redrive(
            log,
            topic_of(log, topic, tenant),
            consumer=consumer,
            offsets=offset or None,
            where=where,
            to=to,
            dry_run=dry_run,
        )
    _show(topic, found, json=json)


@command(
    "discard",
    examples="""$ strandline dead-letters discard orders --consumer billing --dry-run
        $ strandline dead-letters discard orders --offset 0 --json""",
    answers=_ANSWER[:-1] + "; only what this call has discarded.",
)
def discard(
    topic: TopicName,
    *,
    url: Url = None,
    consumer: _Consumer = None,
    offset: _Offsets = None,
    where: _Where = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be discarded, and do nothing.")
    ] = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Discard dead letters: they can no longer be redriven, and no longer block their keys.

    They stay in the list, marked as done. If the consumer or trigger has
    on_dead_letter="block-key", records that wait for them are delivered.
    """
    from strandline.triggers import discard  # noqa: PLC0415 Takes long to import.

    with existing(url, Mode.CONSUME) as log:
        found = discard(
            log,
            topic_of(log, topic, tenant),
            consumer=consumer,
            offsets=offset or None,
            where=where,
            dry_run=dry_run,
        )
    _show(topic, found, json=json)


def _show(topic: str, found: "list[DeadLetter]", *, json: bool) -> None:
    if json:
        from strandline.subscriptions.redriving import dead_letter_json  # noqa: PLC0415

        show_json({"topic": topic, "dead_letters": [dead_letter_json(each) for each in found]})
        return
    show_table(
        ("offset", "consumer", "deliveries", "record", "kind", "redriven", "reason"),
        [
            (
                each.offset,
                each.consumer,
                each.deliveries,
                f"{each.partition}/{each.record_offset}",
                each.event.kind,
                each.is_redriven,
                each.reason,
            )
            for each in found
        ],
    )


list_dead_letters.add_to(app)
show_dead_letter.add_to(app)
redrive.add_to(app)
discard.add_to(app)
