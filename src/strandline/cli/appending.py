"""The command that appends, from arguments, standard input or a file."""

import contextlib
import copy
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strandline.cli.command import command
from strandline.cli.inputs import SUFFIXES, InputTerms, InputValue, from_arguments, from_file
from strandline.cli.options import (
    Json,
    Tenant,
    TopicName,
    Url,
    existing,
    parse_delivery_time,
    parse_time,
    topic_of,
)
from strandline.cli.screen import is_typed, note, progress, show, show_json
from strandline.cli.user_files import STANDARD, reading
from strandline.values import (
    Durability,
    Event,
    InvalidError,
    Mode,
    StrandlineError,
    Topic,
    ValueKind,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from strandline.log import Log

_BATCH = 1000

_Payloads = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PAYLOAD]...", help="JSON for events, text for bytes; or use --from."),
]
_Source = Annotated[
    str | None, typer.Option("--from", metavar="FILE", help="A file, or - for standard input.")
]
_Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="jsonl, csv, parquet or arrow; by default from the name."
    ),
]
_Skip = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, help="Leave out the first N values: those stored before an error."
    ),
]
_Kind = Annotated[
    str | None, typer.Option("--kind", "-k", metavar="KIND", help="The kind of the events.")
]
_Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Their key.")]
_KeyField = Annotated[
    str | None, typer.Option(metavar="NAME", help="The field of the payloads that has the key.")
]
_Header = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="May be repeated.")
]
_OccurredAt = Annotated[str | None, typer.Option(metavar="TIME", help="When the event occurred.")]
_DeliverAt = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="When groups and work queues get them: a time, or a delay such as 15m."
    ),
]
_Partition = Annotated[
    int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="By default by the key.")
]
_Durability = Annotated[str, typer.Option(metavar="LEVEL", help="applied, written or durable.")]
_IdempotencyKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="Append up to 1,000 values once, as one write.")
]
_Timeout = Annotated[
    float | None, typer.Option(metavar="S", min=0, help="How long to wait for a lock.")
]
_RecordTenant = Annotated[
    str | None, typer.Option(metavar="NAME", help="The records' tenant, in a shared topic.")
]


class Appended:
    """Counts the records that a command appended, by partition."""

    def __init__(self) -> None:
        self.records: int = 0
        self.repeats: int = 0
        self._ranges: dict[int, tuple[int, int]] = {}

    def add(self, partition: int, offset: int, *, is_repeat: bool) -> None:
        """Count one record."""
        self.records += 1
        self.repeats += is_repeat
        start, end = self._ranges.get(partition, (offset, offset + 1))
        self._ranges[partition] = min(start, offset), max(end, offset + 1)

    @property
    def again(self) -> str:
        """How many of them were repeats, as text."""
        return f", {self.repeats} of them before" if self.repeats else ""

    def to_json(self) -> dict[str, object]:
        """Return the answer for `--json`."""
        return {
            "records": self.records,
            "repeats": self.repeats,
            "partitions": [
                {"partition": number, "start": start, "end": end}
                for number, (start, end) in sorted(self._ranges.items())
            ],
        }


@command(
    "append",
    examples="""$ strandline append orders '{"id": 17}' --kind order.created --key c-9
        $ echo '{"kind": "order.paid", "payload": {"id": 17}}' | strandline append orders
        $ printf 'id,total\\n18,30\\n19,45\\n' > new.csv
        $ strandline append orders --from new.csv --kind order.created --key-field id""",
    answers="{topic, durability, records, repeats, partitions: [{partition, start, end}, …]}: "
    "the first offset in a partition, and one past the last.",
)
def append(
    topic: TopicName,
    payloads: _Payloads = None,
    *,
    url: Url = None,
    source: _Source = None,
    file_format: _Format = None,
    skip: _Skip = 0,
    kind: _Kind = None,
    key: _Key = None,
    key_field: _KeyField = None,
    header: _Header = None,
    occurred_at: _OccurredAt = None,
    deliver_at: _DeliverAt = None,
    partition: _Partition = None,
    durability: _Durability = "written",
    idempotency_key: _IdempotencyKey = None,
    timeout: _Timeout = None,
    tenant: Tenant = None,
    record_tenant: _RecordTenant = None,
    json: Json = False,
) -> None:
    """Append records to a topic.

    With --kind, each argument, line or row is a payload. Without it, each is a whole event:
    {kind, payload, key, headers, occurred_at}, of which only kind is required. A line of a
    bytes topic is {value: base64, key}. In a topic of batches, each record batch of a file is
    one record; in a typed one, its columns are cast to the schema. Standard input, also as -,
    is JSON lines unless --format is given. Cells of CSV are text, unless the topic has a
    schema or declares its payload; an empty one is null. An error says how many are stored.
    """
    level = Durability.parse(durability)
    terms = InputTerms(
        kind=kind,
        key=key,
        key_column=key_field,
        headers=_headers(header or ()),
        occurred_at=None if occurred_at is None else parse_time(occurred_at),
    )
    options: dict[str, Any] = {
        "partition": partition,
        "tenant": record_tenant,
        "durability": level,
        "idempotency_key": idempotency_key,
        "timeout_s": timeout,
        "deliver_at": None if deliver_at is None else parse_delivery_time(deliver_at),
    }
    by_hand = not payloads and source in (None, STANDARD) and is_typed()
    with existing(url, Mode.WRITE) as log:
        found = topic_of(log, topic, tenant)
        value_kind, schema = _kind_and_schema(log, found)
        items = _items(payloads, source, file_format, value_kind, terms, schema=schema)
        if by_hand:
            note("Type a line of JSON for each record, and Ctrl-D when done.")
        store = _publish if value_kind is ValueKind.BATCH and schema is not None else _append
        appended = store(log, found, items, options, skip=skip, is_shown=not by_hand)
    if json:
        show_json({"topic": topic, "durability": str(level), **appended.to_json()})
    else:
        show(f"{topic}: {appended.records:,} appended, {level}{appended.again}")


def _kind_and_schema(log: "Log", topic: Topic) -> "tuple[ValueKind, pa.Schema | None]":
    """Return the kind of a topic's values, and the schema of its batches or declared payloads."""
    settings = log.describe_topic(topic).settings
    if settings.batch_schema is None:
        return settings.value_kind, settings.payload_schema
    return settings.value_kind, log.scope(topic.tenant).topic(topic).schema


def _items(
    payloads: list[str] | None,
    source: str | None,
    file_format: str | None,
    kind: ValueKind,
    terms: InputTerms,
    *,
    schema: "pa.Schema | None",
) -> Iterator[InputValue]:
    if payloads and source is not None:
        raise InvalidError("give payloads either as arguments or in a file")
    # Any text is bytes; no JSON is a dash.
    if payloads and (payloads != [STANDARD] or kind is ValueKind.BYTES):
        yield from from_arguments(payloads, kind, terms)
        return
    path = source or STANDARD
    chosen = file_format or SUFFIXES.get(os.path.splitext(path)[1].lower())
    if path == STANDARD and chosen is None:
        chosen = "jsonl"
    if chosen is None or chosen not in SUFFIXES.values():
        raise InvalidError("say which format it is, with --format", format=chosen, file=path)
    with reading(path) as file:
        yield from from_file(file, chosen, kind, terms, schema)


def _append(
    log: "Log",
    topic: Topic,
    items: Iterable[InputValue],
    options: dict[str, Any],
    *,
    skip: int,
    is_shown: bool,
) -> Appended:
    appended = Appended()
    rest = islice(items, skip, None)
    shown = progress(f"appending to {topic.name}", is_shown=is_shown)
    with shown as bar, _saying_what_is_stored(appended, skip):
        while piece := list(islice(rest, _BATCH)):
            if options["idempotency_key"] is not None and appended.records:
                raise InvalidError(
                    "an idempotency key is for one append of up to 1,000 values",
                    stored=appended.records,
                )
            receipts = log.append_many(
                topic,
                [item.value for item in piece],
                keys=[item.key for item in piece],
                **options,
            )
            for receipt in receipts:
                appended.add(receipt.partition, receipt.offset, is_repeat=receipt.is_repeat)
            bar.advance(len(piece))
    return appended


@contextlib.contextmanager
def _saying_what_is_stored(appended: Appended, skip: int) -> Iterator[None]:
    """Add to an error in the middle how many records are stored, and how to continue after them."""
    try:
        yield
    except StrandlineError as error:
        if not appended.records or "stored" in error.fields:
            raise
        stored, following = appended.records, skip + appended.records
        raised = copy.copy(error)
        raised.args = (f"{error}; {stored} records are stored, continue with --skip {following}",)
        raised.fields = {**error.fields, "stored": stored, "skip": following}
        raise raised from error


def _publish(
    log: "Log",
    topic: Topic,
    items: Iterable[InputValue],
    options: dict[str, Any],
    *,
    skip: int,
    is_shown: bool,
) -> Appended:
    """Append to a typed topic; each batch must match its schema."""
    appended = Appended()
    tenant = options.pop("tenant")
    scope = log.scope(topic.tenant if tenant is None else tenant)
    known = scope.topic(topic)
    shown = progress(f"appending to {topic.name}", is_shown=is_shown)
    with shown as bar, _saying_what_is_stored(appended, skip):
        for value, key in islice(items, skip, None):
            if options["idempotency_key"] is not None and appended.records:
                raise InvalidError(
                    "an idempotency key is for one batch of a typed topic", stored=appended.records
                )
            assert not isinstance(value, bytes | Event)
            batch = _fitted(value, known.schema)
            receipt = scope.publish(known, batch, key=key, **options)
            appended.add(receipt.partition, receipt.offset, is_repeat=receipt.is_repeat)
            bar.advance()
    return appended


def _fitted(batch: "pa.RecordBatch", schema: "pa.Schema") -> "pa.RecordBatch":
    """Return a batch with the schema's columns, cast to `schema`; any other batch unchanged.

    InvalidError if a cast would lose anything.
    """
    import pyarrow as pa  # noqa: PLC0415 Takes long to import.

    from strandline.typed.schemas import check_zone, fields_within  # noqa: PLC0415 As well.

    if sorted(batch.schema.names) != sorted(schema.names):
        return batch
    for name, given, wanted in fields_within(pa.struct(batch.schema), pa.struct(schema)):
        if wanted is None:
            raise InvalidError("the topic's schema has no such field, leave it out", field=name)
        check_zone(name, given, wanted, "write the times in the file as the topic has them")
    try:
        return batch.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        reason = str(error)
        raise InvalidError("these rows do not fit the topic's schema", reason=reason) from error


def _headers(pairs: Iterable[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r} is not a header: use NAME=VALUE")
        if name in headers:
            raise typer.BadParameter(f"the header {name!r} is given twice, a record has one")
        headers[name] = value
    return headers
