"""Rows that a store selects where its records are, so that only those come. See design 0112."""

from collections.abc import Iterator
from typing import cast

import pyarrow as pa

from strandline.log import EvaluatingStore, Log, PredicateText, ScanText, StoredTopic, parts_of
from strandline.scans.paging import columns_of
from strandline.scans.sieve import Sieve
from strandline.values import CorruptError, Topic


def selected_rows(
    log: Log, place: tuple[Topic, int], span: tuple[int, int], schema: pa.Schema, sieve: Sieve
) -> Iterator[pa.RecordBatch]:
    """Yield columns of rows of a range: at least those that come through the sieve.

    From where the store cannot evaluate the sieve, all rows.
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
    """Return the batches of a stream from outside, validated."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(packed)) as stream:
            found = list(stream)
        for each in found:
            each.validate(full=True)
            if not each.schema.equals(schema):
                raise pa.ArrowInvalid(f"columns {each.schema.names}")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptError(
            "the server has sent rows that are no rows of this scan",
            file=url,
            position=0,
            reason=str(error),
        ) from error
    return found
