"""What a store may do besides: read only what predicates select."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from strandline.log.ranges import ReadRange
from strandline.log.store import T_contra
from strandline.values import Record


class RecordBound(NamedTuple):
    """A comparison that every wanted event meets, of what it has beside its payload or in it."""

    #: One of kind, key, timestamp, occurred_at; or what names a field of payloads.
    column: str
    #: One of eq, lt, le, gt, ge, in, prefix, null, not_null.
    comparison: str
    #: Texts, which are compared by their bytes of UTF-8, or times in microseconds; of a field
    #: what Python has for its type.
    values: tuple[Any, ...]
    #: Of a field of payloads: its Arrow type.
    type: Any = None


class SelectingStore(Protocol[T_contra]):
    """What a store with `has_selection` has besides."""

    def first_meeting(
        self, topic: T_contra, partition: int, start: int, bounds: Sequence[RecordBound]
    ) -> int:
        """Return the first offset from `start` on whose event may meet all of the bounds.

        No event between `start` and it does. It may be less than the first that does, and is
        the high-water mark at most: `start` itself where nothing is known, such as of records
        that were evicted.
        """


class PredicateText(NamedTuple):
    """A predicate on a topic's records, to be parsed again where they are."""

    where: str
    #: What `current_timestamp` in it stands for.
    now_us: int
    #: What payloads are declared to have, as Arrow serializes a schema; None for nothing.
    declared: bytes | None = None


class SelectedPage(NamedTuple):
    """The records up to `end` of which a predicate selects something, or on which it fails."""

    records: Sequence[Record]
    end: int


class ScanText(NamedTuple):
    """What a scan reads of a partition: columns of the rows in [start, end) that it selects."""

    start: int
    end: int
    #: The columns, as Arrow serializes a schema.
    columns: bytes
    tenant: str | None
    predicate: PredicateText | None
    #: What the predicate was parsed for, as Arrow serializes a schema.
    offered: bytes | None


class EvaluatingStore(Protocol[T_contra]):
    """What a store with `has_evaluation` has besides. See design 0112."""

    def read_selected(
        self,
        topic: T_contra,
        partition: int,
        wanted: ReadRange,
        predicates: Sequence[PredicateText],
    ) -> SelectedPage | None:
        """Return records from `wanted.start` on that any of the predicates selects.

        It ends before the record that exceeds a limit, and may end earlier. Of a batch only the
        selected rows may come. None where they cannot be evaluated: read the records then.
        """

    def scan_selected(
        self, topic: T_contra, partition: int, wanted: ScanText
    ) -> tuple[bytes, int] | None:
        """Return rows as an Arrow IPC stream, and the offset up to which they are all there are.

        None where the scan cannot be evaluated.
        """

    def scan_schema(self, topic: T_contra, ranges: Sequence[tuple[int, int, int]]) -> bytes | None:
        """Return the columns of partitions, given with start and end, of a topic of batches.

        As Arrow serializes a schema; None where that is unknown.
        """
