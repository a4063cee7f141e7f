"""The columns of a topic, and reading a partition's rows a page at a time."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

import pyarrow as pa

from strandline.log import EvaluatingStore, Log, PredicateText, ScanText, StoredTopic, parts_of
from strandline.log.columns import batch_schema, plain_schema, shared_columns
from strandline.scans.sieve import Sieve
from strandline.scans.skipping import stored_bounds
from strandline.tiering import Tier
from strandline.typed import definition_of
from strandline.values import CorruptError, Topic, TopicSettings, ValueKind
from strandline.values.batches import decode_schema
from strandline.values.widening import fitted_batch

ROWS_EXAMINED: Final = 256 * 1024
"""A page ends after this many rows read, however few of them were selected."""
_BYTES_MAX: Final = 4 * 1024 * 1024


def topic_columns(
    log: Log, topic: Topic, settings: TopicSettings, ranges: Mapping[int, tuple[int, int]]
) -> pa.Schema:
    """Return the columns of these ranges of partitions, united."""
    if settings.value_kind is not ValueKind.BATCH:
        return plain_schema(settings)
    known = _known_columns(log, topic, ranges)
    if known is not None:
        return known
    found: list[pa.Schema] = list(definition_of(log, topic).versions)
    tier = cast("Tier | None", parts_of(log).tier)
    for partition, (start, end) in ranges.items():
        at = start
        for _, stop, footer in tier.footers(topic, partition, start, end) if tier else ():
            if footer is None:
                found += _read_columns(log, (topic, partition), at, stop)
            else:
                found += footer.value_schemas
            at = stop
        found.append(log.read_batches(topic, partition, at, end).schema)
    return batch_schema(found)


def _read_columns(log: Log, place: tuple[Topic, int], start: int, end: int) -> list[pa.Schema]:
    """Return the columns of records whose tier object has no readable footer."""
    try:
        return [log.read_batches(*place, start, end).schema]
    except CorruptError:
        return []  # Reading these records raises; the scan may exclude them.


def _known_columns(
    log: Log, topic: Topic, ranges: Mapping[int, tuple[int, int]]
) -> pa.Schema | None:
    """Return the columns from the store, if it knows them without sending the records."""
    store = parts_of(log).store
    stored = store.find_topic_id(topic.id) if store.capabilities.has_evaluation else None
    if stored is None:
        return None
    evaluating = cast("EvaluatingStore[StoredTopic]", store)
    packed = evaluating.scan_schema(stored, [(each, *span) for each, span in ranges.items()])
    return None if packed is None else decode_schema(packed)


def columns_of(
    log: Log, place: tuple[Topic, int], start: int, end: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield [start, end) with only these columns, from the store or the tier."""
    tier = cast("Tier | None", parts_of(log).tier)
    if tier is not None:
        return tier.columns(*place, start, end, schema)
    found = log.read_batches(*place, start, end)
    return (fitted_batch(batch, schema) for batch in shared_columns(found, schema))


def scan_page(
    log: Log,
    place: tuple[Topic, int],
    span: tuple[int, int],
    columns: pa.Schema,
    sieve: Sieve,
) -> tuple[list[pa.RecordBatch], int]:
    """Return the first selected rows of a range, and the offset up to which they are complete."""
    read = columns
    if "_offset" not in columns.names:
        read = columns.append(pa.field("_offset", pa.int64(), nullable=False))
    skipping = stored_bounds(sieve, read)
    taken: list[pa.RecordBatch] = []
    size = examined = 0
    for start, end in skipping.kept(log, place, *span):
        for batch in columns_of(log, place, start, end, read):
            found = sieve.sifted(batch).select(columns.names)
            if found.num_rows:
                taken.append(found)
                size += found.nbytes
            examined += batch.num_rows
            following = batch.column("_offset")[batch.num_rows - 1].as_py() + 1
            if size >= _BYTES_MAX or examined >= ROWS_EXAMINED:
                return taken, following
    return taken, span[1]


def selected_rows(
    log: Log, place: tuple[Topic, int], span: tuple[int, int], schema: pa.Schema, sieve: Sieve
) -> Iterator[pa.RecordBatch]:
    """Yield columns of rows of a range: at least those that the sieve selects.

    All rows, if the store cannot evaluate the sieve.
    """
    start, end = span
    store = parts_of(log).store
    stored = store.find_topic_id(place[0].id)
    evaluating = cast("EvaluatingStore[StoredTopic]", store)
    predicate = sieve.predicate
    columns = bytes(schema.serialize().to_pybytes())
    text = offered = None
    if predicate is not None:
        text = PredicateText(predicate.text, predicate.now_us)
        offered = bytes(predicate.schema.serialize().to_pybytes())
    while stored is not None and start < end:
        store.check_open()
        wanted = ScanText(start, end, columns, sieve.tenant, text, offered)
        page = evaluating.scan_selected(stored, place[1], wanted)
        if page is None:
            break
        yield from _batches(page[0], schema, store.url)
        start = page[1]
    if start < end:
        yield from columns_of(log, place, start, end, schema)


def _batches(packed: bytes, schema: pa.Schema, url: str) -> list[pa.RecordBatch]:
    """Decode and validate the batches of a stream from a server."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(packed)) as stream:
            found = list(stream)
        for each in found:
            each.validate(full=True)
            if not each.schema.equals(schema):
                raise pa.ArrowInvalid(f"columns {each.schema.names}")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptError(
            "the server has sent rows that do not belong to this scan",
            file=url,
            position=0,
            reason=str(error),
        ) from error
    return found
