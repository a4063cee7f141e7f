"""The command that erases the records of one key."""

from typing import Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import Json, Tenant, TopicName, Url, existing, topic_of
from strandline.cli.screen import show, show_json
from strandline.values import Mode


@command(
    "erase",
    examples="""$ strandline append orders '{"id": 1}' --kind order.created --key customer-17
        $ strandline erase orders --key customer-17
        $ strandline erase orders --key customer-17 --yes --json""",
    answers="{topic, tenant, erased, is_dry_run, is_released, topics: [{topic, partitions: "
    "[erased, …]}, …]}.",
)
def erase(
    topic: TopicName,
    *,
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="The key of the records.")],
    url: Url = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Erase them; without, they are counted.")
    ] = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Erase the content of the records of one key permanently; without --yes a dry run.

    Offsets do not change, and each record becomes a tombstone. Dead letters of the topic and
    copies in the tier are erased, too. If it is interrupted, run it again to complete it.
    """
    with existing(url, Mode.WRITE) as log:
        found = log.erase(topic_of(log, topic, tenant), key=key, dry_run=not yes)
    if json:
        show_json(
            {
                "topic": topic,
                "tenant": tenant,
                "erased": found.erased,
                "is_dry_run": found.is_dry_run,
                "is_released": found.is_released,
                "topics": [
                    {"topic": each.topic, "partitions": list(each.partitions)}
                    for each in found.topics
                ],
            }
        )
        return
    done = f"{found.erased:,} records erased" if yes else f"{found.erased:,} would be erased: --yes"
    show(f"{topic}: {done}")
    if not found.is_released:
        show("readers prevented the removal of the last copy, run this again")
