"""Files of events that a room above has filled, and that a store takes in as they are.

See design 0135. A store that can has the methods of `StagingStore`.
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
    """What a store has besides that takes in files as they are."""

    def staged_layout(self, topic: T_contra, key: str) -> StagedLayout | None:
        """Return how a file for this topic is laid out; None if it takes none.

        All idempotency keys are as long as `key`.
        """

    def take_in(
        self, topic: T_contra, partition: int, path: str, rows: Sequence[StagedRows]
    ) -> int | None:
        """Append the rows of a file by having the file itself; return the offset of the first.

        All of them or none; durable then. The file stays under its own name, which the caller
        removes. Nothing of it but the zeros is changed. None, with nothing appended, where that
        cannot be done, or where one of the keys is known.
        """

    def leave(self, topic: T_contra, partition: int, path: str) -> None:
        """Have nothing of a file whose `take_in` a crash has cut short, before its rows were in."""


def staged_layout(log: "Log", topic: Topic, key: str) -> StagedLayout | None:
    """Return how a file for a topic is laid out; None if its store takes in no files."""
    find = getattr(log._parts.store, "staged_layout", None)  # noqa: SLF001 - For rooms above.
    found: StagedLayout | None = None
    if find is not None:
        found = find(log._access.find(topic), key)  # noqa: SLF001 - As above.
    return found


def take_in(
    log: "Log", topic: Topic, partition: int, path: str, rows: Sequence[StagedRows]
) -> int | None:
    """Append the rows of a staged file as `StagingStore.take_in`, to a topic of no tenant."""
    parts, access = log._parts, log._access  # noqa: SLF001 - For rooms above.
    take = getattr(parts.store, "take_in", None)
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


def leave(log: "Log", topic: Topic, partition: int, path: str) -> None:
    """Have the store keep nothing of a staged file that it has not taken in, as `StagingStore`."""
    let_go = getattr(log._parts.store, "leave", None)  # noqa: SLF001 - For rooms above.
    if let_go is not None:
        let_go(log._access.find_to_append(topic, ()), partition, path)  # noqa: SLF001 - As above.
