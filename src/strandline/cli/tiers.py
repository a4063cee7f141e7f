"""The command that moves old records to an object store."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from strandline.cli.command import command
from strandline.cli.options import (
    Json,
    Tenant,
    TopicName,
    Url,
    existing,
    parse_age,
    parse_size,
    topic_of,
)
from strandline.cli.screen import counted, progress, show, show_json
from strandline.values import Mode

if TYPE_CHECKING:
    from strandline.tiering import TierReport

TierStore = Annotated[
    str, typer.Argument(metavar="STORE", help="file:///path, s3://bucket/prefix, …")
]
LocalAge = Annotated[
    str | None, typer.Option(metavar="AGE", help="Keep younger records here, too.")
]
LocalBytes = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Keep so much of a partition here, too.")
]
IncludeOpen = Annotated[bool, typer.Option("--include-open", help="Also copy what still grows.")]
Delta = Annotated[
    bool, typer.Option("--delta", help="Have the objects be a Delta table from now on.")
]
Iceberg = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The same as an Iceberg table: catalogue, namespace, table."),
]
CompactSize = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Merge small objects up to this size.")
]


@command(
    "tier",
    examples="""$ strandline tier orders "file://$PWD/cold" --include-open --local-bytes 0
        $ strandline read orders --limit 1""",
    answers="{topic, store, copied, copied_records, copied_bytes, evicted_records, deleted, "
    "damaged, merged}: copies made, deleted, found damaged and merged into larger ones.",
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
    json: Json = False,
) -> None:
    """Copy sealed records to an object store, as Parquet, and free their space here.

    They read as before, through the log. Without --local-age and --local-bytes they
    stay here, too. May be repeated at any time, also after a crash. With --compact,
    neighbouring objects become one; those that were merged are deleted an hour later.
    """
    from strandline.tiering import tier as run_tier  # noqa: PLC0415 Takes long to import.

    with existing(url, Mode.WRITE) as log, progress(f"tiering {topic}") as bar:
        report = run_tier(
            log,
            topic_of(log, topic, tenant),
            store,
            local_age_s=None if local_age is None else parse_age(local_age),
            local_bytes=None if local_bytes is None else parse_size(local_bytes),
            include_open=include_open,
            delta=delta,
            iceberg=iceberg,
            compact_bytes=None if compact is None else parse_size(compact),
            progress=lambda _: bar.advance(),
        )
    fields = asdict(report)
    if json:
        show_json({"topic": topic, "store": store, **fields})
    else:
        show(f"{topic}: {report_text(report)}")
        if not report.copied and not include_open:
            show("Nothing more is sealed; --include-open copies what still grows, too.")


def report_text(report: "TierReport") -> str:
    """Return a report in words."""
    where = f"{counted(report.copied, 'object')} of {report.copied_bytes:,} bytes"
    parts = [
        f"{counted(report.copied_records, 'record')} copied in {where}",
        f"{report.evicted_records:,} evicted here",
    ]
    if report.merged:
        parts.append(f"{report.merged:,} merged into larger ones")
    if report.deleted:
        parts.append(f"{report.deleted:,} copies deleted")
    if report.damaged:
        parts.append(f"{report.damaged:,} copies DAMAGED")
    return ", ".join(parts)
