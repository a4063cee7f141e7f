"""Applies a subscription's predicate to records, and to the rows of batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from strandline.log import PredicateText
from strandline.predicates import (
    EVENT_COLUMNS,
    Predicate,
    PredicateEvalError,
    check_syntax,
    event_columns,
    matches_each,
    parse_predicate,
)
from strandline.values import InvalidError, Record, TopicSettings, ValueKind
from strandline.values.record import with_value

Outcome: TypeAlias = Record | InvalidError | None
"""The record, or its selected rows; the error; None if it is not selected."""

FEW_RECORDS: Final = 8
"""Up to this many events, single tests are faster than building columns."""


class FailedRecord(NamedTuple):
    """A record on which a predicate fails, and the error."""

    record: Record
    error: InvalidError

    @property
    def offset(self) -> int:
        """Its offset."""
        return self.record.offset


class Screen(Protocol):
    """A predicate on the records of one topic."""

    text: PredicateText
    """The predicate's text, to be parsed again by a server."""

    def sift(self, records: Sequence[Record]) -> Iterable[Outcome]:
        """Return the outcome of each record, in their order."""


def screen_for(where: str, settings: TopicSettings, now_us: int) -> Screen:
    """Return the screen for a topic with these settings; PredicateError if the text is invalid.

    `current_timestamp` in the text has the value `now_us` from now on.
    """
    if settings.value_kind is ValueKind.EVENT:
        return EventScreen(where, now_us, settings.payload_schema)
    if settings.value_kind is ValueKind.BATCH:
        return BatchScreen(where, now_us)
    raise InvalidError("records of plain bytes have no columns, subscribe without where")


class EventScreen:
    """A predicate on EVENT_COLUMNS; a payload is parsed only if the predicate needs it."""

    def __init__(self, where: str, now_us: int, declared: pa.Schema | None = None) -> None:
        self.predicate: Final = parse_predicate(where, event_columns(declared), now_us=now_us)
        packed = None if declared is None else bytes(declared.serialize().to_pybytes())
        self.text: PredicateText = PredicateText(where, now_us, packed)

    def sift(self, records: Sequence[Record]) -> Iterable[Outcome]:
        if len(records) <= FEW_RECORDS and self.predicate.row_test is not None:
            # If it fails, the general evaluation below raises the error.
            with suppress(pa.ArrowInvalid):
                return [record if self.wants(record) else None for record in records]
        return self._sift_batch(records)

    def wants(self, record: Record) -> bool:
        """Whether a record matches; only for a predicate with a single-row test."""
        test = self.predicate.row_test
        assert test is not None
        return bool(test.matches([_READ[name](record) for name in test.columns]))

    def _sift_batch(self, records: Sequence[Record]) -> Iterable[Outcome]:
        try:
            wanted = self.predicate.matches(_columns(self.predicate.columns, records)).to_pylist()
        except PredicateEvalError as error:
            if len(records) > 1:
                return [outcome for each in records for outcome in self._sift_batch([each])]
            return [_with_place(error, records[0])]
        return [
            record if is_wanted else None for record, is_wanted in zip(records, wanted, strict=True)
        ]


def sift_together(
    screens: Sequence[EventScreen], records: Sequence[Record]
) -> dict[EventScreen, list[int]]:
    """Return for each screen the indices of the records that match, in one pass.

    Empty if one of the predicates fails.
    """
    if len(screens) < 2:  # noqa: PLR2004 - Two are needed to share.
        return {}
    if len(records) == 1 and all(each.predicate.row_test is not None for each in screens):
        with suppress(pa.ArrowInvalid):
            return {each: [0] if each.wants(records[0]) else [] for each in screens}
    predicates = [each.predicate for each in screens]
    read = {name for each in predicates for name in each.columns}
    try:
        found = matches_each(predicates, _columns(read, records))
    except PredicateEvalError:
        return {}  # Each screen must find the row on which it fails itself.
    return {
        screen: pc.indices_nonzero(mask).to_pylist() if mask.true_count else []
        for screen, mask in zip(screens, found, strict=True)
    }


def _columns(read: Collection[str], records: Sequence[Record]) -> pa.RecordBatch:
    """Return the event columns that are read; one column if none is."""
    fields = [field for field in EVENT_COLUMNS if field.name in (read or ("kind",))]
    arrays = [
        _array([_READ[field.name](record) for record in records], field.type) for field in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class BatchScreen:
    """A predicate on the rows of batches, parsed for each schema that occurs."""

    def __init__(self, where: str, now_us: int) -> None:
        check_syntax(where)
        self.text: PredicateText = PredicateText(where, now_us)
        self._schema: pa.Schema | None = None
        self._predicate: Predicate | None = None

    def sift(self, records: Sequence[Record]) -> Iterable[Outcome]:
        return [self._sift(record) for record in records]

    def _sift(self, record: Record) -> Outcome:
        batch: Any = record.value
        try:
            kept = self._for(batch.schema).filter(batch)
        except InvalidError as error:
            return _with_place(error, record)
        if kept.num_rows == batch.num_rows:
            return record
        return with_value(record, kept) if kept.num_rows else None

    def _for(self, schema: pa.Schema) -> Predicate:
        if self._predicate is None or self._schema is None or not schema.equals(self._schema):
            self._predicate = parse_predicate(self.text.where, schema, now_us=self.text.now_us)
            self._schema = schema
        return self._predicate


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.JsonType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def _with_place(error: InvalidError, record: Record) -> InvalidError:
    error.add_note(f"topic={record.topic} partition={record.partition} offset={record.offset}")
    return error


_READ: Final[dict[str, Callable[[Record], Any]]] = {
    "kind": lambda record: record.event.kind,
    "key": lambda record: record.key,
    "payload": lambda record: record.event.payload_json,
    "headers": lambda record: list(record.event.headers.items()),
    "occurred_at": lambda record: record.event.occurred_at_us,
    "timestamp": lambda record: record.timestamp_us,
}
