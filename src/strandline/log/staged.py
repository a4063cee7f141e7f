"""Files of events that a room above has written, and that a store ingests without a copy.

See design 0135. Stores with this ability implement `StagingStore`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from strandline.log.store import StoredTopic
from strandline.values import Mode, Topic

if TYPE_CHECKING:
    from strandline.log.log import Log

T_contra = TypeVar("T_contra", bound=StoredTopic, contravariant=True)


class StagedLayout(NamedTuple):
    """How a staged file is laid out: zeros of these lengths, and messages."""

    #: At its beginning.
    first_bytes: int
    #: Before each message, also the first.
    each_bytes: int


class StagedRows(NamedTuple):
    """What is appended at once: an Arrow message of events in a file, as `EventRows` has one."""

    position: int
    length: int
    #: The CRC-32C of the message.
    crc: int
    records: int
    #: How large the records count.
    size_bytes: int
    idempotency_key: str


class StagingStore(Protocol[T_contra]):
    """An optional ability of a store: ingest files without copying their rows."""

    def staged_layout(self, topic: T_contra, key: str) -> StagedLayout | None:
        """Return how a file for this topic is laid out; None if it cannot be ingested.

        All idempotency keys are as long as `key`.
        """

    def ingest(
        self, topic: T_contra, partition: int, path: str, rows: Sequence[StagedRows]
    ) -> int | None:
        """Append the rows of a file by linking the file itself; return the offset of the first.

        All of them or none, durably. The file keeps its own name, too, which the caller
        removes; only its zeros are overwritten. None, with nothing appended, if that cannot
        be done, or if one of the keys is known.
        """

    def discard(self, topic: T_contra, partition: int, path: str) -> None:
        """Remove what a crash during `ingest` has left of a file that was not appended."""


def staged_layout(log: "Log", topic: Topic, key: str) -> StagedLayout | None:
    """Return how a file for a topic is laid out; None if its store ingests no files."""
    find = getattr(log._parts.store, "staged_layout", None)  # noqa: SLF001 - For rooms above.
    found: StagedLayout | None = None
    if find is not None:
        found = find(log._access.find(topic), key)  # noqa: SLF001 - As above.
    return found


def ingest(
    log: "Log", topic: Topic, partition: int, path: str, rows: Sequence[StagedRows]
) -> int | None:
    """Append the rows of a staged file as `StagingStore.ingest`, to a topic of no tenant."""
    parts, access = log._parts, log._access  # noqa: SLF001 - For rooms above.
    take = getattr(parts.store, "ingest", None)
    if take is None or parts.broker is not None:
        # An append is what a broker announces.
        return None
    access.check_mode(Mode.WRITE)
    found = access.find_to_append(topic, ())
    start: int | None = take(found, partition, path, rows)
    if start is not None:
        counts = log._counts.of(found.topic)  # noqa: SLF001 - As above.
        counts.appends += len(rows)
        counts.records += sum(each.records for each in rows)
        counts.bytes += sum(each.size_bytes for each in rows)
    return start


def discard(log: "Log", topic: Topic, partition: int, path: str) -> None:
    """Have the store remove what a crash has left of a staged file, as `StagingStore.discard`."""
    remove = getattr(log._parts.store, "discard", None)  # noqa: SLF001 - For rooms above.
    if remove is not None:
        remove(log._access.find_to_append(topic, ()), partition, path)  # noqa: SLF001 - As above.
