"""Commands that export a topic to a file, and import it."""

import contextlib
import copy
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from strandline.cli.command import command
from strandline.cli.options import Json, Tenant, TopicName, Url, opened, topic_of
from strandline.cli.screen import counted, note, progress, show, show_json, to_json
from strandline.cli.user_files import STANDARD, reading, writing
from strandline.clock import SystemClock
from strandline.values import (
    ConflictError,
    InvalidError,
    Mode,
    Record,
    StrandlineError,
    Topic,
    TopicSettings,
    ValueKind,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from strandline.cli.transfer_file import Header, Row
    from strandline.log import Log

_FORMATS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_MANY = 1000

_Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="parquet or jsonl; else by the file's name."),
]


Advance: TypeAlias = Callable[[int], None]
"""Called with how many more records are done."""


class ReplayedClock(SystemClock):
    """The system's clock, but for the time of day: that of the record being imported."""

    def __init__(self) -> None:
        super().__init__()
        self.record_us: int | None = None

    def now_us(self) -> int:
        """See Clock."""
        return super().now_us() if self.record_us is None else self.record_us


@command(
    "export",
    examples="""$ strandline export orders orders.parquet
        $ strandline export orders orders.jsonl --json
        $ strandline export orders - | wc -l""",
    answers="{topic, file, format, records}; with - on standard error.",
)
def export(
    topic: TopicName,
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="A new file, or - for standard output.")
    ],
    *,
    url: Url = None,
    file_format: _Format = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Write a topic to a file, each record exactly as it is.

    Keys, kinds, payloads and headers byte for byte, times, tenants, partitions and
    offsets. Not in the file: consumers, and which writes could be recognised again;
    `backup` keeps those.
    """
    chosen = _chosen(path, file_format)
    from strandline.cli import transfer_file  # noqa: PLC0415 Takes long to import.

    write = transfer_file.write_parquet if chosen == "parquet" else transfer_file.write_lines
    with opened(url, Mode.READ) as log:
        found = topic_of(log, topic, tenant)
        header = _header(log, found)
        total = log.describe_topic(found).records
        with writing(path) as file, progress(f"exporting {topic}", total) as bar:
            count = write(file, header, _records(log, found, bar.advance))
    fields = {"topic": topic, "file": path, "format": chosen, "records": count}
    if path == STANDARD:
        note(to_json(fields) if json else f"{topic}: {counted(count, 'record')}")
    elif json:
        show_json(fields)
    else:
        show(f"{topic}: {counted(count, 'record')} in {path}")


@command(
    "import",
    examples="""$ strandline export orders orders.parquet
        $ strandline import orders.parquet --topic orders-again
        $ strandline import orders.parquet --url sqlite:./copy.db --json""",
    answers="{topic, file, records, offsets_kept, timestamps_kept}.",
)
def import_(
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="An export, or - for standard input.")
    ],
    *,
    url: Url = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Under another name.")
    ] = None,
    file_format: _Format = None,
    json: Json = False,
) -> None:
    """Bring an exported topic into a log, under its own settings; it must be empty there.

    Records come into their own partitions, in their order, with their own timestamps.
    Offsets begin at 0: they are the same unless the oldest records had been trimmed.
    """
    chosen = _chosen(path, file_format)
    from strandline.cli.transfer_file import read_rows  # noqa: PLC0415 Takes long to import.
    from strandline.opening import open_log  # noqa: PLC0415 The same.

    clock = ReplayedClock()
    with reading(path) as file:
        header, rows = read_rows(file, chosen)
        with open_log(url, clock=clock) as log:
            is_new = not _is_there(log, topic or header.topic, header.tenant)
            made = _create(log, header, topic)
            with progress(f"importing {made.name}") as bar, _tidying(log, made, is_new=is_new):
                fields = _append(log, made, rows, clock, bar.advance)
    clock.record_us = None
    if json:
        show_json({"topic": made.name, "file": path, **fields})
    else:
        moved = "" if fields["offsets_kept"] else ", with new offsets"
        show(f"{made.name}: {counted(fields['records'], 'record')}{moved}")


def _chosen(path: str, file_format: str | None) -> str:
    chosen = file_format or _FORMATS.get(os.path.splitext(path)[1].lower())
    if chosen is None and path == STANDARD:
        chosen = "jsonl"
    if chosen is None or chosen not in _FORMATS.values():
        raise InvalidError("a file is .parquet or .jsonl, or say --format", file=path)
    if path == STANDARD and chosen == "parquet":
        raise InvalidError("Parquet needs a file, use --format jsonl with -")
    return chosen


def _header(log: "Log", topic: Topic) -> "Header":
    from strandline.cli.transfer_file import Header, packed_schema  # noqa: PLC0415 Takes long.

    found = log.describe_topic(topic)
    settings = found.settings
    return Header(
        1,
        str(log.id),
        topic.name,
        topic.tenant,
        str(topic.id),
        settings.value_kind,
        settings.partitions,
        settings.retention_age_s,
        settings.retention_bytes,
        settings.limit_bytes,
        settings.proof,
        found.created_at_us,
        dict(settings.metadata),
        [packed_schema(each) for each in _schemas(log, topic, settings)],
    )


def _schemas(log: "Log", topic: Topic, settings: TopicSettings) -> "Sequence[pa.Schema]":
    if settings.payload_schema is not None:
        return (settings.payload_schema,)
    return log.scope(topic.tenant).topic(topic).versions


def _records(log: "Log", topic: Topic, advance: Advance) -> Iterator[Record]:
    for number in range(log.describe_topic(topic).settings.partitions):
        for record in log.read(topic, number, log.marks(topic, number).low):
            advance(1)
            yield record


def _create(log: "Log", header: "Header", name: str | None) -> Topic:
    from strandline.cli.transfer_file import unpacked_schema  # noqa: PLC0415 Takes long to import.

    versions = [unpacked_schema(each) for each in header.schemas]
    is_declared = header.kind is ValueKind.EVENT and bool(versions)
    made = log.create_topic(
        name or header.topic,
        partitions=header.partitions,
        value_kind=header.kind,
        retention_age_s=header.retention_age_s,
        retention_bytes=header.retention_bytes,
        limit_bytes=header.limit_bytes,
        proof=header.proof,
        tenant=header.tenant,
        metadata=header.metadata,
        schema=None if is_declared or not versions else versions[0].serialize().to_pybytes(),
        payload_schema=versions[0] if is_declared else None,
    )
    for each in versions[1:]:
        log.scope(header.tenant).evolve(made, each)
    if any(marks.high for marks in log.describe_topic(made).marks):
        raise ConflictError("this topic has records, choose a new name", topic=made.name)
    return made


def _is_there(log: "Log", name: str, tenant: str | None) -> bool:
    try:
        log.topic(name, tenant=tenant)
    except InvalidError:
        return False
    return True


@contextlib.contextmanager
def _tidying(log: "Log", topic: Topic, *, is_new: bool) -> Iterator[None]:
    """After a failed import drop a new topic without records; say what any other one holds."""
    try:
        yield
    except StrandlineError as error:
        stored = sum(marks.high for marks in log.describe_topic(topic).marks)
        if is_new and not stored:
            log.drop_topic(topic)
        if not stored:
            raise
        reported = copy.copy(error)
        advice = "already, drop it before you import again"
        reported.args = (f"{error}; {stored} records are in {topic.name} {advice}",)
        reported.fields = {**error.fields, "stored": stored}
        raise reported from error


def _append(
    log: "Log", topic: Topic, rows: "Iterable[Row]", clock: ReplayedClock, advance: Advance
) -> dict[str, Any]:
    records, offsets_kept, timestamps_kept = 0, True, True
    # What has one time, place and owner can be appended at once.
    for (partition, timestamp_us, tenant), group in itertools.groupby(
        rows, key=lambda row: (row.partition, row.timestamp_us, row.tenant)
    ):
        clock.record_us = timestamp_us
        while piece := list(itertools.islice(group, _MANY)):
            receipts = log.append_many(
                topic,
                [row.value for row in piece],
                keys=[row.key for row in piece],
                partition=partition,
                tenant=tenant,
            )
            for row, receipt in zip(piece, receipts, strict=True):
                offsets_kept &= row.offset == receipt.offset
                timestamps_kept &= row.timestamp_us == receipt.timestamp_us
            records += len(piece)
            advance(len(piece))
    log.flush()
    return {
        "records": records,
        "offsets_kept": offsets_kept,
        "timestamps_kept": timestamps_kept,
    }
