"""Commands that copy a whole log, and restore a copy."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from strandline.cli.command import command
from strandline.cli.exit_codes import ExitCode
from strandline.cli.options import Json, Url, opened, parse_start
from strandline.cli.screen import counted, progress, show, show_json
from strandline.cli.verifying import check_topics, show_reports
from strandline.values import InvalidError, Mode, Topic, us_from_datetime

if TYPE_CHECKING:
    from strandline.log import Log
    from strandline.log.copies import CopiedPartition, PartitionKey

_ANSWER = (
    "{source, target, is_sound, records, partitions: [as of `verify`]}; the partitions "
    "have the records [start, end)."
)

_UNTIL = (
    "{!r} is no end: use TOPIC=OFFSET or TOPIC/PARTITION=OFFSET, or one time such as "
    "2026-03-01T12:00:00Z for all topics"
)


@command(
    "backup",
    examples="""$ strandline backup ./backup-1
        $ strandline read orders --url file:./backup-1""",
    answers=_ANSWER,
)
def backup(
    target: Annotated[
        str, typer.Argument(metavar="BACKUP", help="The target: a new path, or a URL.")
    ],
    *,
    url: Url = None,
    json: Json = False,
) -> None:
    """Copy the whole log to a new place, while others write to it, and verify the copy.

    Each partition is copied as of one moment, with its consumers, none of which is ahead of the
    records; a sqlite: log is copied as of a single moment, including other tables in the
    database. The copy is a log that `--url` can name.
    """
    from strandline.opening import place_url  # noqa: PLC0415 See `opened`.

    source = _located(url)
    _copy(source, place_url(target, like=source), {}, json=json)


@command(
    "restore",
    examples="""$ strandline backup ./backup-1
        $ strandline restore ./backup-1 --url file:./again
        $ strandline restore ./backup-1 --url file:./earlier --until orders=3 --json
        $ strandline restore ./backup-1 --url file:./yesterday --until 1d""",
    answers=_ANSWER,
)
def restore(
    source: Annotated[
        str, typer.Argument(metavar="BACKUP", help="A backup, or any log: its path or URL.")
    ],
    *,
    url: Url = None,
    until: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIME|TOPIC[/N]=OFFSET",
            help="End before this time, or age such as 1d; or end partition N, by default 0, "
            "before this offset. May be repeated.",
        ),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="The tenant of the topics in --until.")
    ] = None,
    json: Json = False,
) -> None:
    """Restore a backup as a new log, whole or up to a point, and verify it.

    --url names the new log, which must not exist. It has the old one's identity and begins a
    new epoch in each partition: a consumer, view or Spark query that had read beyond it gets
    DivergedError with the offset to go back to.
    """
    from strandline.opening import place_url  # noqa: PLC0415 See `opened`.

    source = place_url(source)
    with opened(source, Mode.READ) as log:
        ends = _ends(log, until or [], tenant)
    target = None if url is None else place_url(url, like=source)
    _copy(source, _target(target), ends, json=json)


@command(
    "copy",
    examples="""$ strandline copy file:.strandline/events sqlite:./events.db
        $ strandline read orders --url sqlite:./events.db""",
    answers="{source, target, records, partitions: [{topic, tenant, partition, start, end}, …]}; "
    "records counts what was copied by this call.",
)
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The log: its URL or path.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="A new log of any kind, or an earlier copy: a URL.")
    ],
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="Only this topic. May be repeated."),
    ] = None,
    json: Json = False,
) -> None:
    """Copy a log to another kind of store, while others write to it, and compare the two.

    Offsets, timestamps, identities, proofs and consumers are kept. Records that the target has
    already are not copied again: repeat it until little is left, stop the writers, repeat it
    once more, and continue with the target. See "Move a log" in the documentation.
    """
    from strandline.moves import copy as copy_log  # noqa: PLC0415 See `opened`.

    counts: list[int] = []
    with progress("copying") as bar:

        def advance(count: int) -> None:
            counts.append(count)
            bar.advance(count)

        copied = copy_log(source, target, topics=topic or None, progress=advance)
    if json:
        show_json(
            {
                "source": copied.source,
                "target": copied.target,
                "records": sum(counts),
                "partitions": [
                    {
                        "topic": each.topic.name,
                        "tenant": each.topic.tenant,
                        "partition": each.partition,
                        "start": each.low,
                        "end": each.end,
                    }
                    for each in copied.partitions
                ],
            }
        )
    else:
        records = counted(sum(counts), "record")
        show(f"{copied.source} -> {copied.target}: {records} copied, all compared")


def _ends(log: "Log", until: list[str], tenant: str | None) -> "dict[PartitionKey, int]":
    from strandline.log.copies import ends_at  # noqa: PLC0415 See `opened`.

    if len(until) == 1 and "=" not in until[0]:
        moment = parse_start(until[0])
        if not isinstance(moment, datetime):
            raise typer.BadParameter(_UNTIL.format(until[0]))
        return ends_at(log, us_from_datetime(moment))
    ends: dict[PartitionKey, int] = {}
    for each in until:
        name, partition, end = _parsed(each)
        ends[log.topic(name, tenant=tenant).id, partition] = end
    return ends


def _located(url: str | None) -> str:
    from strandline.opening import default_url, place_url  # noqa: PLC0415 See `opened`.

    return default_url() if url is None else place_url(url)


def _target(url: str | None) -> str:
    from strandline.opening import is_shared  # noqa: PLC0415 See `opened`.

    located = _located(url)
    if not is_shared(located):
        raise InvalidError("a copy must be a file: or sqlite: log", url=located)
    return located


def _parsed(text: str) -> tuple[str, int, int]:
    place, equals, end = text.rpartition("=")
    name, slash, partition = place.partition("/")
    if not equals or not end.isdecimal() or (slash and not partition.isdecimal()):
        raise typer.BadParameter(_UNTIL.format(text))
    return name, int(partition or 0), int(end)


def _copy(source: str, target: str, ends: "dict[PartitionKey, int]", *, json: bool) -> None:
    copied = _copied(source, target, ends)
    topics: dict[Topic, None] = dict.fromkeys(each.topic for each in copied)
    with opened(target, Mode.READ) as log:
        reports = check_topics(log, list(topics))
    is_sound = all(each["is_sound"] for each in reports)
    records = sum(each.end - each.low for each in copied)
    if json:
        show_json(
            {
                "source": source,
                "target": target,
                "is_sound": is_sound,
                "records": records,
                "partitions": reports,
            }
        )
    else:
        show_reports(reports)
        verdict = "sound" if is_sound else "DAMAGED"
        show(f"{source} -> {target}: {counted(records, 'record')}, {verdict}")
    if not is_sound:
        raise typer.Exit(ExitCode.FAILED_CHECK)


def _copied(source: str, target: str, ends: "dict[PartitionKey, int]") -> "list[CopiedPartition]":
    from strandline.opening import copy_log  # noqa: PLC0415 See `opened`.

    with progress("copying") as bar:
        return copy_log(source, target, ends=ends, progress=lambda _: bar.advance())
