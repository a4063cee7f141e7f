"""The command that erases the records of one key."""

from typing import Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import Json, Tenant, TopicName, Url, existing, topic_of
from strandline.cli.screen import counted, show, show_json
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
        bool, typer.Option("--yes", help="Erase them; without, only count them.")
    ] = False,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Permanently erase the content of one key's records: a dry run, unless --yes is given.

    Offsets stay, and each record becomes a tombstone. Dead letters of the topic and copies in
    the tier are erased, too. If interrupted, repeat the call to complete it.
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
    records = counted(found.erased, "record")
    done = "erased" if yes else "would be erased, pass --yes to erase"
    show(f"{topic}: {records} {done}")
    if not found.is_released:
        show("readers prevented removing the last copy of them, run this again")
