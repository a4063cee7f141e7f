"""Converts rows of jobs that were written for Kafka into rows of events.

`key`, `value` and `headers` as Spark's Kafka sink takes them, and as `valueFormat=kafka` gives
them: the value is the payload, and the header `kind` is the kind.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from strandline.values import InvalidError

COLUMNS: Final = ("key", "value", "headers")

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_KIND: Final = "kind"


def is_kafka(names: Sequence[str]) -> bool:
    """Whether a frame with these columns has values, where events have payloads."""
    return "value" in names and "payload" not in names


def event_rows(batch: pa.RecordBatch, kind: str | None) -> pa.RecordBatch:
    """Return the rows as events; `kind` is the kind of rows without the header."""
    names, count = batch.schema.names, batch.num_rows
    keys = batch.column("key") if "key" in names else pa.nulls(count, pa.string())
    kinds: list[str | None] = [kind] * count
    headers: pa.Array = pa.nulls(count, pa.map_(pa.string(), pa.string()))
    if "headers" in names:
        pairs = [_pairs(each) for each in _headers(batch.column("headers"))]
        kinds = [dict(each).get(_KIND, kind) for each in pairs]
        rest = [[pair for pair in each if pair[0] != _KIND] for each in pairs]
        headers = pa.array(rest, pa.map_(pa.string(), pa.string()))
    if None in kinds:
        raise InvalidError(
            "an event has a kind: give the rows a header kind, or the write an option kind"
        )
    columns = [pa.array(kinds, pa.string()), keys, batch.column("value"), headers]
    return pa.RecordBatch.from_arrays(columns, ["kind", "key", "payload", "headers"])


def _headers(column: pa.Array) -> list[Any]:
    try:
        found: list[Any] = column.cast(_HEADERS).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidError(
            "headers are array<struct<key: string, value: binary>>, as Kafka's",
            given=str(column.type),
            reason=str(error),
        ) from error
    return found


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, str]]:
    try:
        return [(each["key"], (each["value"] or b"").decode()) for each in headers or ()]
    except UnicodeDecodeError as error:
        raise InvalidError(
            "headers of events are text, and one is not UTF-8", reason=str(error)
        ) from error
