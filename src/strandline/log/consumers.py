"""The part of the contract that is about consumers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from strandline.log.results import Claim, TopicName
from strandline.values import ConsumerLag, Offset, Partition


class LogConsumers(Protocol):
    """Named cursors, kept in the log: per topic, tenant, name and partition.

    In a topic of a tenant the consumers are that tenant's, and another is
    InvalidError. No tenant sees, moves or lists another's consumers. A cursor is the
    next offset to deal with. It is durable when a call returns, and so is what lies
    before it, where a log reaches durable.

    A consumer exists in a partition from its first register, ack or seek there. After
    CONSUMER_SILENCE_S without one it no longer holds trimming back, but keeps its
    cursors: it finds them, or TrimmedError, and never starts anew unnoticed.
    Cursors that are damaged or missing are CorruptError in every call that needs them.
    """

    def register(
        self,
        topic: TopicName,
        consumer: str,
        starts: Mapping[int, int],
        *,
        tenant: str | None = None,
    ) -> Mapping[Partition, Offset]:
        """Have the consumer exist in these partitions, and return its cursors there.

        A cursor that exists stays, and has shown a sign of life. A partition without
        one gets it at its offset in `starts`, or at the low-water mark if that is
        higher. All of them or none. InvalidError beyond the high-water mark.
        DivergedError as for `cursor`.
        """

    def claim(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Claim:
        """Be the only one that reads this partition for the consumer, until released.

        UnavailableError, with the holder's `pid` and `host` in `.fields`, while another
        claim holds it: of any process, this one included. A claim ends with the log
        that it was made on, with its last reference, and with its process however that
        ends. It keeps nobody from moving the cursor.
        """

    def ack(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        end: int,
        *,
        tenant: str | None = None,
    ) -> Offset:
        """Say that everything before `end` is dealt with, and return the cursor.

        The cursor never goes back: a lower `end` changes nothing, and is still a sign
        of life. InvalidError beyond the high-water mark. DivergedError if the log has
        lost records that the cursor had passed.
        """

    def seek(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        offset: int,
        *,
        tenant: str | None = None,
    ) -> None:
        """Put the cursor to `offset`, forwards or back.

        TrimmedError below the low-water mark, InvalidError beyond the high-water mark.
        """

    def cursor(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Offset | None:
        """Return the cursor; None until the consumer exists here.

        DivergedError if the log has lost records that the cursor had passed.
        """

    def consumers(self, topic: TopicName, *, tenant: str | None = None) -> Sequence[ConsumerLag]:
        """Return the tenant's consumers, one entry for each partition with a cursor.

        Sorted by name, then partition.
        """

    def forget(self, topic: TopicName, consumer: str, *, tenant: str | None = None) -> bool:
        """Remove the consumer's cursors in all partitions; False if there were none."""
