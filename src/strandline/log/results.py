"""What callers and logs hand each other besides records and receipts. Part of the contract."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from strandline.values import Event, Offset, Partition, Topic

if TYPE_CHECKING:
    import pyarrow as pa

TopicName: TypeAlias = "str | Topic"
"""How a caller says which topic."""


class ArrowBatch(Protocol):
    """A `pyarrow.RecordBatch`, by what distinguishes it from other values.

    pyarrow has no types: to a type checker its names are Any, which accepts everything.
    """

    @property
    def num_rows(self) -> int:
        """How many rows it has."""

    def __arrow_c_array__(self, requested_schema: Any = None, /) -> Any:
        """Hand the rows to Arrow's C interface."""


Value: TypeAlias = Event | bytes | ArrowBatch
"""What a record can hold; which of them, the topic's `ValueKind` says."""


class Batches(Protocol):
    """Records as Arrow record batches, once, in offset order.

    Columns: `_partition` int32, `_offset` int64, `_row` int32, `_timestamp`
    timestamp[us, UTC], `_key` string, `_tenant` string, then the value's:

    - event: `kind` string, `payload` string, `headers` string (both JSON as stored),
      `occurred_at` timestamp[us, UTC];
    - bytes: `value` binary;
    - batch: its own columns, one row for each of its rows, numbered by `_row`. Where
      the records read have different schemas, theirs are united by name: null fills
      what a record lacks, and of two types of numbers the wider counts, so versions of
      one schema give the newest of the range. InvalidError if neither holds the other.

    `_row` is 0 where a record is one row. A record never spans two record batches.
    """

    @property
    def schema(self) -> "pa.Schema":
        """The schema of every record batch, also if there is none."""

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        """Yield the record batches; each belongs to the caller."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the record batches to Arrow's C stream interface."""


class Claim(Protocol):
    """The right to be the one reader of a consumer's partition."""

    def release(self) -> None:
        """Release the claim; from any thread. May be repeated."""


class Hint(NamedTuple):
    """News of a partition without its data: it ends at `end` now, or did a moment ago.

    Of a watch with `durable_only`, the end is that of what is durable.
    """

    topic: Topic
    partition: Partition
    end: Offset


class Watch(Protocol):
    """Notifies one reader that partitions have grown, so that it need not poll.

    A hint says where to look and is never a reason not to look: it may be late, and
    repeated, and ends may be skipped. But a partition that has grown beyond what the
    reader has seen is always hinted at in the end, however the two race. What a watch
    holds is bounded by the number of partitions watched.

    One thread or task waits at a time; everything else may be called from anywhere.
    """

    @property
    def is_closed(self) -> bool:
        """Whether the watch or its log was closed."""

    def add(self, topic: TopicName, partition: int, seen: int) -> None:
        """Watch a partition from now on, of which the reader has seen all before `seen`.

        Hints at once if the partition ends beyond `seen`. A partition that is watched
        already gets the new `seen`. ClosedError once the watch or its log is closed.
        """

    def remove(self, topic: TopicName, partition: int) -> None:
        """Stop watching a partition: no hint of it is returned from now on.

        Nothing happens if it is not watched, or if its topic was dropped.
        """

    def wait(self, timeout_s: float | None = None) -> Collection[Hint]:
        """Return the hints since the last time, at most one for each partition.

        Waits until there is at least one. Returns none when the time is up or `wake`
        was called. Raises ClosedError once the watch or its log is closed. A topic
        that is dropped gives a last hint: what is called next raises InvalidError.
        """

    async def wait_on_loop(self, timeout_s: float | None = None) -> Collection[Hint]:
        """Like `wait`, on the running event loop."""

    def wake(self) -> None:
        """End the present wait early, or the next one if there is none."""

    def close(self) -> None:
        """End the watch, and a wait with ClosedError. May be repeated."""
