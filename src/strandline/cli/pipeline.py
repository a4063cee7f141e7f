"""Commands that run jobs on Spark."""

import importlib
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol

import typer

from strandline.cli import user_pipelines
from strandline.cli.command import command, new_app
from strandline.cli.exit_codes import ExitCode
from strandline.cli.options import Json, Tenant, TopicName, Url, parse_age, parse_size
from strandline.cli.screen import note, printable, progress, show, show_json
from strandline.cli.spark_session import LOCAL, Master, session
from strandline.cli.tiers import (
    CompactSize,
    Delta,
    Iceberg,
    IncludeOpen,
    LocalAge,
    LocalBytes,
    TierStore,
    report_text,
)
from strandline.values import InvalidError
from strandline.values.extras import install_command

if TYPE_CHECKING:
    from strandline.spark.jobs import FlowReport, FolderReport

app: Final = new_app(
    "Run jobs over whole topics on Spark.\n\n"
    f"They need: {install_command('spark')}. Each may be stopped or killed, and run again: "
    "the result is the same."
)

_Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="A new folder.")]
_Below = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[N=]OFFSET", help="End partition N, or all, before this offset. May be repeated."
    ),
]
_Checkpoint = Annotated[
    str, typer.Option(metavar="FOLDER", help="Stores the progress; for this job only.")
]
_Select = Annotated[
    str, typer.Option(metavar="COLUMNS", help="How to transform rows: a SELECT list in Spark SQL.")
]
_Staging = Annotated[
    str | None,
    typer.Option(
        metavar="STORE", help="Where rows for a log of a server are staged: s3://bucket/path."
    ),
]
_FOLDER_ANSWER = (
    "{folder, offsets: {partition: [start, end], …}, records, rows, is_repeat, seconds, "
    "rows_per_s}: `is_repeat` if an earlier run had finished it."
)
_FLOW_ANSWER = "{topic, rows, batches, seconds, rows_per_s}: rows that this run has read."


@command(
    "audit",
    examples="""$ strandline pipeline audit
        $ strandline pipeline audit orders --json""",
    answers="{is_sound, topics, partitions, records, copies, seconds, rows_per_s, findings: "
    "[{topic, tenant, partition, offset, reason, location}, …]}.",
)
def audit(
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...", help="By default all, of every tenant, also internal ones."
        ),
    ] = None,
    *,
    url: Url = None,
    tenant: Tenant = None,
    master: Master = LOCAL,
    json: Json = False,
) -> None:
    """Read everything, from store and tier, and report damage. Exits with 1 if there is any.

    Like `verify`, but in parallel; also checks copies of records that the log still has.
    """
    with session(master, url) as spark, progress("auditing") as bar:
        from strandline.spark import jobs  # noqa: PLC0415 Takes long to import.

        chosen = topics or None
        report = jobs.audit(spark, url, chosen, tenant=tenant, progress=bar.advance)
    counts = _counts(report, "topics", "partitions", "records", "copies")
    findings = [asdict(each) for each in report.findings]
    if json:
        show_json({"is_sound": report.is_sound, **counts, **_pace(report), "findings": findings})
    else:
        for each in report.findings:
            owner = f" of {each.tenant}" if each.tenant else ""
            place = f"{each.topic}/{each.partition}{owner} at {each.offset}"
            note(f"{place}: {printable(each.reason)} [{printable(each.location or '-')}]")
        verdict = "sound" if report.is_sound else f"{len(findings):,} FINDINGS"
        _summary(f"{verdict}: ", counts, report)
    if not report.is_sound:
        raise typer.Exit(ExitCode.FAILED_CHECK)


@command(
    "tier",
    examples="""$ strandline pipeline tier orders "file://$PWD/cold" --include-open --local-bytes 0
        $ strandline read orders --limit 1""",
    answers="{topic, store, copied, copied_records, copied_bytes, evicted_records, deleted, "
    "damaged, merged, seconds, rows_per_s}.",
)
def tier(
    topic: TopicName,
    store: TierStore,
    *,
    url: Url = None,
    local_age: LocalAge = None,
    local_bytes: LocalBytes = None,
    include_open: IncludeOpen = False,
    delta: Delta = False,
    iceberg: Iceberg = None,
    compact: CompactSize = None,
    tenant: Tenant = None,
    master: Master = LOCAL,
    json: Json = False,
) -> None:
    """Copy sealed records to an object store, one object per task, and free local storage.

    Like the command `tier`, and can run concurrently with it.
    """
    with session(master, url) as spark, progress(f"tiering {topic}") as bar:
        from strandline.spark import jobs  # noqa: PLC0415 Takes long to import.

        report = jobs.tier(
            spark,
            url,
            topic,
            store,
            tenant=tenant,
            local_age_s=None if local_age is None else parse_age(local_age),
            local_bytes=None if local_bytes is None else parse_size(local_bytes),
            include_open=include_open,
            delta=delta,
            iceberg=iceberg,
            compact_bytes=None if compact is None else parse_size(compact),
            progress=bar.advance,
        )
    if json:
        show_json({"topic": topic, "store": store, **asdict(report.done), **_pace(report)})
    else:
        show(f"{topic}: {report_text(report.done)}, {_paced(report)}")


@command(
    "rebuild",
    examples="""$ strandline pipeline rebuild orders totals:Totals totals.snapshot
        $ strandline views totals.snapshot""",
    answers="{snapshot, committed: {partition: offset, …}, records, quarantined, seconds, "
    "rows_per_s}: `committed` is the last offset in the snapshot.",
)
def rebuild(
    topic: TopicName,
    view: Annotated[
        str, typer.Argument(metavar="MODULE:CLASS", help="The view, importable from here.")
    ],
    snapshot: Annotated[str, typer.Argument(metavar="FILE", help="The view's snapshot.")],
    *,
    url: Url = None,
    poison: Annotated[
        str, typer.Option(metavar="POLICY", help="For a record that fails: stop, or quarantine.")
    ] = "stop",
    tenant: Tenant = None,
    master: Master = LOCAL,
    json: Json = False,
) -> None:
    """Fold a topic into the snapshot of a view, which then resumes from there.

    Folds all partitions in parallel, from the oldest record. No live view may use the file
    meanwhile.
    """
    policy: Literal["stop", "quarantine"] = "quarantine" if poison == "quarantine" else "stop"
    if poison not in ("stop", "quarantine"):
        raise typer.BadParameter(f"{poison!r} is not a policy: use stop or quarantine")
    with session(master, url) as spark, progress(f"folding {topic}") as bar:
        from strandline.spark import jobs  # noqa: PLC0415 Takes long to import.

        report = jobs.rebuild(
            spark,
            url,
            topic,
            _view(view),
            snapshot,
            tenant=tenant,
            poison=policy,
            progress=bar.advance,
        )
    fields = _counts(report, "records", "quarantined")
    if json:
        shown = {"snapshot": report.snapshot, "committed": report.committed}
        show_json({**shown, **fields, **_pace(report)})
    else:
        _summary(f"{topic} -> {report.snapshot}: ", fields, report)


@command(
    "snapshot",
    examples="""$ strandline pipeline snapshot orders latest-orders
        $ strandline pipeline snapshot orders earlier-orders --below 0=3 --json""",
    answers=_FOLDER_ANSWER,
)
def snapshot(
    topic: TopicName,
    folder: _Folder,
    *,
    url: Url = None,
    below: _Below = None,
    tombstone: Annotated[
        str, typer.Option(metavar="CONDITION", help="Omit rows that match, in Spark SQL.")
    ] = "",
    tenant: Tenant = None,
    master: Master = LOCAL,
    json: Json = False,
) -> None:
    """Write the latest record of each key as Parquet; the topic is not changed.

    `_strandline` in the folder contains the offsets that it covers.
    """
    ends = _parsed(below)
    with session(master, url) as spark, progress(f"reading {topic}") as bar:
        from strandline.spark import jobs  # noqa: PLC0415 Takes long to import.

        report = jobs.snapshot(
            spark,
            url,
            topic,
            folder,
            below=ends,
            tombstone=tombstone,
            tenant=tenant,
            progress=bar.advance,
        )
    _show_folder(topic, report, json=json)


@command(
    "export",
    examples="""$ strandline pipeline export orders all-orders
        $ strandline pipeline export orders paid-orders --format json --where "kind = 'order.paid'"
        """,
    answers=_FOLDER_ANSWER,
)
def export(
    topic: TopicName,
    folder: _Folder,
    *,
    url: Url = None,
    where: Annotated[
        str, typer.Option(metavar="CONDITION", help="Only rows that match, in Spark SQL.")
    ] = "",
    file_format: Annotated[
        str, typer.Option("--format", metavar="NAME", help="parquet, or json for JSON lines.")
    ] = "parquet",
    below: _Below = None,
    tenant: Tenant = None,
    master: Master = LOCAL,
    json: Json = False,
) -> None:
    """Write a topic's records as Parquet or JSON lines, for other programs.

    To bring a topic unchanged to another log, use the commands `export` and `import`.
    """
    ends = _parsed(below)
    with session(master, url) as spark, progress(f"exporting {topic}") as bar:
        from strandline.spark import jobs  # noqa: PLC0415 Takes long to import.

        options: dict[str, Any] = {"file_format": file_format, "below": ends, "tenant": tenant}
        report = jobs.export(
            spark, url, topic, folder, where=where, progress=bar.advance, **options
        )
    _show_folder(topic, report, json=json)


@command(
    "derive",
    examples="""$ strandline create paid
        $ strandline pipeline derive orders paid --checkpoint done --where "kind = 'order.paid'"
        $ strandline read paid""",
    answers=_FLOW_ANSWER,
)
def derive(
    topic: TopicName,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The topic to append to.")],
    *,
    checkpoint: _Checkpoint,
    url: Url = None,
    where: Annotated[
        str, typer.Option(metavar="PREDICATE", help="Only rows that match, as for `read`.")
    ] = "",
    select: _Select = "",
    tenant: Tenant = None,
    staging: _Staging = None,
    master: Master = LOCAL,
    json: Json = False,
) -> None:
    """Append a topic's records to another topic, each row once; run it again for new ones."""
    with session(master, url) as spark, progress(f"deriving {target}") as bar:
        from strandline.spark import jobs  # noqa: PLC0415 Takes long to import.

        report = jobs.derive(
            spark,
            url,
            topic,
            target,
            checkpoint=checkpoint,
            where=where,
            select=select,
            tenant=tenant,
            staging=staging,
            progress=bar.advance,
        )
    _show_flow(report, json=json)


@command(
    "backfill",
    examples="""$ strandline pipeline export orders old-orders --format json
        $ strandline create again
        $ strandline pipeline backfill old-orders again --format json --checkpoint again.done \
--select "kind, key, payload"
        $ strandline read again""",
    answers=_FLOW_ANSWER,
)
def backfill(
    files: Annotated[
        str, typer.Argument(metavar="FILES", help="A folder of files, one file, or a pattern.")
    ],
    topic: TopicName,
    *,
    checkpoint: _Checkpoint,
    url: Url = None,
    file_format: Annotated[
        str, typer.Option("--format", metavar="NAME", help="parquet, csv, or json for JSON lines.")
    ] = "parquet",
    schema: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS",
            help='Columns and types, as in "id BIGINT, name STRING"; by default text for CSV.',
        ),
    ] = "",
    select: _Select = "",
    tenant: Tenant = None,
    staging: _Staging = None,
    master: Master = LOCAL,
    json: Json = False,
) -> None:
    """Append the rows of files to a topic, each row once; run it again for new files."""
    with session(master, url) as spark, progress(f"filling {topic}") as bar:
        from strandline.spark import jobs  # noqa: PLC0415 Takes long to import.

        options: dict[str, Any] = {"schema": schema, "select": select, "tenant": tenant}
        options |= {"file_format": file_format, "staging": staging}
        report = jobs.backfill(
            spark, files, url, topic, checkpoint=checkpoint, progress=bar.advance, **options
        )
    _show_flow(report, json=json)


for _command in (
    *(audit, tier, rebuild, snapshot, export, derive, backfill),
    *(user_pipelines.init, user_pipelines.run),
):
    _command.add_to(app)


# --- shared helpers ---


class _Timed(Protocol):
    @property
    def seconds(self) -> float: ...

    @property
    def rows_per_s(self) -> float: ...


def _pace(report: _Timed) -> dict[str, object]:
    return {"seconds": round(report.seconds, 3), "rows_per_s": round(report.rows_per_s)}


def _counts(report: object, *names: str) -> dict[str, int]:
    return {name: getattr(report, name) for name in names}


def _summary(front: str, counts: dict[str, int], report: _Timed) -> None:
    listed = ", ".join(f"{name} {each:,}" for name, each in counts.items())
    show(f"{front}{listed}, {_paced(report)}")


def _paced(report: _Timed) -> str:
    return f"{report.seconds:.1f} s, {report.rows_per_s:,.0f} rows/s"


def _show_folder(topic: str, report: "FolderReport", *, json: bool) -> None:
    counts = _counts(report, "records", "rows")
    if json:
        shown = {"folder": report.folder, "offsets": report.offsets, "is_repeat": report.is_repeat}
        show_json({**shown, **counts, **_pace(report)})
    else:
        done = "was there already" if report.is_repeat else "written"
        _summary(f"{topic} -> {report.folder} {done}: ", counts, report)


def _show_flow(report: "FlowReport", *, json: bool) -> None:
    counts = _counts(report, "rows", "batches")
    if json:
        show_json({"topic": report.topic, **counts, **_pace(report)})
    else:
        _summary(f"{report.topic}: ", counts, report)


def _parsed(below: list[str] | None) -> dict[int, int] | int | None:
    ends: dict[int, int] = {}
    for each in below or ():
        number, equals, end = each.rpartition("=")
        if not end.isdecimal() or (equals and not number.isdecimal()):
            raise typer.BadParameter(f"{each!r} is not an end: use OFFSET or PARTITION=OFFSET")
        if not equals:
            if below != [each]:
                raise typer.BadParameter(
                    "an offset for all partitions cannot be combined with others"
                )
            return int(end)
        ends[int(number)] = int(end)
    return ends or None


def _view(text: str) -> Any:
    """Return the view named by `module:Class`, ready to be sent to Spark's processes."""
    from strandline.spark.jobs.rebuilding import send_along  # noqa: PLC0415 Only here.
    from strandline.views import View  # noqa: PLC0415 Takes long to import.

    module_name, colon, name = text.partition(":")
    if not colon:
        raise InvalidError("name a view as module:Class", view=text)
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
        made = getattr(module, name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise InvalidError("there is no such view", view=text, reason=str(error)) from error
    finally:
        sys.path.remove(os.getcwd())
    if not isinstance(made, View):
        raise InvalidError("this is not a view", view=text)
    send_along(module)
    return made
