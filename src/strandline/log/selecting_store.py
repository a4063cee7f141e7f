"""An optional ability of a store: to read only the records that predicates select."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from strandline.log.ranges import ReadRange
from strandline.log.store import T_contra
from strandline.values import Record


class RecordBound(NamedTuple):
    """A comparison that is true for every selected event, of one of its fields."""

    #: One of kind, key, timestamp, occurred_at; or the name of a payload field.
    column: str
    #: One of eq, lt, le, gt, ge, in, prefix, null, not_null.
    comparison: str
    #: Texts, compared by their UTF-8 bytes, or times in microseconds; for a payload field,
    #: Python values of its type.
    values: tuple[Any, ...]
    #: For a payload field: its Arrow type.
    type: Any = None


class SelectingStore(Protocol[T_contra]):
    """What a store with `has_selection` offers besides."""

    def first_meeting(
        self, topic: T_contra, partition: int, start: int, bounds: Sequence[RecordBound]
    ) -> int:
        """Return an offset from `start` on, before which no event meets all of the bounds.

        The event there may meet them, or lie before the first one that does. At most the
        high-water mark; `start` itself if nothing is known, as for evicted records.
        """


class PredicateText(NamedTuple):
    """A predicate on a topic's records as text, parsed again by the server that has them."""

    where: str
    #: The value of `current_timestamp` in it.
    now_us: int
    #: The topic's declared payload schema, as Arrow serializes a schema; None for none.
    declared: bytes | None = None


class SelectedPage(NamedTuple):
    """The records up to `end` that a predicate selects, or on which it fails."""

    records: Sequence[Record]
    end: int


class ScanText(NamedTuple):
    """A scan of one partition: some columns of the rows in [start, end) that it selects."""

    start: int
    end: int
    #: The columns, as Arrow serializes a schema.
    columns: bytes
    tenant: str | None
    predicate: PredicateText | None
    #: The schema that the predicate was parsed against, as Arrow serializes a schema.
    offered: bytes | None


class EvaluatingStore(Protocol[T_contra]):
    """What a store with `has_evaluation` offers besides. See design 0112."""

    def read_selected(
        self,
        topic: T_contra,
        partition: int,
        wanted: ReadRange,
        predicates: Sequence[PredicateText],
    ) -> SelectedPage | None:
        """Return records from `wanted.start` on that any of the predicates selects.

        Stops before the record that exceeds a limit, or earlier. Of a batch it may return
        only the selected rows. None if it cannot evaluate them: read the records instead.
        """

    def scan_selected(
        self, topic: T_contra, partition: int, wanted: ScanText
    ) -> tuple[bytes, int] | None:
        """Return the selected rows as an Arrow IPC stream, and the offset up to which they go.

        None if it cannot evaluate the scan.
        """

    def scan_schema(self, topic: T_contra, ranges: Sequence[tuple[int, int, int]]) -> bytes | None:
        """Return the columns of ranges (partition, start, end) of a topic of batches.

        As Arrow serializes a schema; None if unknown.
        """
