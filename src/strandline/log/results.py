"""Values that callers and logs exchange, besides records and receipts. Part of the contract."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from strandline.values import Event, Offset, Partition, Topic

if TYPE_CHECKING:
    import pyarrow as pa

TopicName: TypeAlias = "str | Topic"
"""How a caller names a topic."""


class ArrowBatch(Protocol):
    """A `pyarrow.RecordBatch`, described by what sets it apart from other values.

    pyarrow is untyped: to a type checker its names are Any, which accepts everything.
    """

    @property
    def num_rows(self) -> int:
        """How many rows it has."""

    def __arrow_c_array__(self, requested_schema: Any = None, /) -> Any:
        """Export the rows through Arrow's C data interface."""


Value: TypeAlias = Event | bytes | ArrowBatch
"""What a record can hold; the topic's `ValueKind` decides which of them."""


class Batches(Protocol):
    """Records as Arrow record batches, in offset order. They can be read once.

    Columns: `_partition` int32, `_offset` int64, `_row` int32, `_timestamp`
    timestamp[us, UTC], `_key` string, `_tenant` string, then the value's:

    - event: `kind` string, `payload` string, `headers` string (both JSON as stored),
      `occurred_at` timestamp[us, UTC];
    - bytes: `value` binary;
    - batch: its own columns, one row for each of its rows, numbered by `_row`. Records
      of different schemas are united by column name: null fills missing columns, and of
      two number types the wider one counts, so that versions of one schema give the
      newest. InvalidError for types that cannot be united.

    `_row` is 0 where a record is one row. A record never spans two record batches.
    """

    @property
    def schema(self) -> "pa.Schema":
        """The schema of every record batch, also if there are no batches."""

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        """Yield the record batches; the caller may keep them."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the record batches through Arrow's C stream interface."""


class Claim(Protocol):
    """The right to be the one reader of a consumer's partition."""

    def release(self) -> None:
        """Release the claim; from any thread. May be repeated."""


class Hint(NamedTuple):
    """A notification that a partition ends at `end`, or did a moment ago, without its data.

    For a watch with `durable_only`, `end` is the durable mark.
    """

    topic: Topic
    partition: Partition
    end: Offset


class Watch(Protocol):
    """Notifies one reader that partitions have grown, so that it need not poll.

    A hint says where to read; its absence proves nothing: hints may be late or
    repeated, and may skip ends. But if a partition has grown beyond what the reader has
    seen, a hint always follows, also if the two race. A watch's memory is bounded by the
    number of partitions watched.

    One thread or task waits at a time; everything else may be called from anywhere.
    """

    @property
    def is_closed(self) -> bool:
        """Whether the watch or its log was closed."""

    def add(self, topic: TopicName, partition: int, seen: int) -> None:
        """Watch a partition from now on; the reader has seen all records before `seen`.

        Hints at once if the partition ends beyond `seen`. For a partition already
        watched, sets the new `seen`. ClosedError once the watch or its log is closed.
        """

    def remove(self, topic: TopicName, partition: int) -> None:
        """Stop watching a partition: no further hint of it is returned.

        Does nothing if it is not watched, or if its topic was dropped.
        """

    def wait(self, timeout_s: float | None = None) -> Collection[Hint]:
        """Return the hints since the last call, at most one for each partition.

        Waits until there is at least one. Returns none when the time is up or `wake`
        was called. ClosedError once the watch or its log is closed. Dropping a topic
        gives a last hint; a later call that names the topic raises InvalidError.
        """

    async def wait_on_loop(self, timeout_s: float | None = None) -> Collection[Hint]:
        """Like `wait`, on the running event loop."""

    def wake(self) -> None:
        """End the current wait early, or the next one if there is none."""

    def close(self) -> None:
        """Close the watch; a pending wait raises ClosedError. May be repeated."""
