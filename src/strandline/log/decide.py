"""The rule for an append; each store applies it under its own lock."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard

from strandline.log.identities import Original
from strandline.log.store import AppendRequest
from strandline.values import ConflictError, Offset, Tenant
from strandline.values.names import LANE_PREFIX

# Calling a named tuple's class is slow, and each append makes one.
_new: Any = tuple.__new__


class IdentityIndex(Protocol):
    """The writes that a partition recognises at one append time."""

    def find_key(self, tenant: Tenant | None, key: str, count: int) -> Original | None:
        """Return where the write of this key went; None if it is new.

        ConflictError if it had another number of records.
        """

    def find_sequence(self, tenant: Tenant | None, name: str, sequence: int) -> Original | None:
        """Return where this sequence went; None if it is new; ConflictError if it was skipped."""

    def add_key(self, tenant: Tenant | None, key: str, original: Original) -> None:
        """Record where the write of a new key went."""

    def add_sequence(
        self, tenant: Tenant | None, name: str, sequence: int, original: Original
    ) -> None:
        """Record where a new sequence went."""


class PartitionHead(Protocol):
    """The end of a partition, as its store has just read it."""

    @property
    def next(self) -> int:
        """The offset of the next record."""

    @property
    def last_us(self) -> int:
        """The timestamp of the last record."""

    def identities(self, now_us: int) -> IdentityIndex:
        """Return the writes recognised at this time. Called only if needed."""


def is_lane(producer: str | None) -> TypeGuard[str]:
    """Whether a producer is the lane of a remote log; users' producers never are.

    An append in a lane is recognised as a whole, by its last sequence. See design 0101.
    """
    return producer is not None and producer.startswith(LANE_PREFIX)


class Decision(NamedTuple):
    """The outcome of an append: the repeats, and the drafts after them as new records."""

    timestamp_us: int
    originals: Sequence[Original] = ()


def decide(head: PartitionHead, request: AppendRequest, now_us: int) -> Decision:
    """Return the outcome of the append; ConflictError if it may not be stored.

    The timestamp never falls within a partition. A repeat is recognised before the
    expected offset is examined.
    """
    own_us = request.timestamp_us
    timestamp_us = max(now_us if own_us is None else own_us, head.last_us)
    expected = request.expected_offset
    if expected is None and request.producer is None and request.idempotency_key is None:
        plain: Decision = _new(Decision, (timestamp_us, ()))
        return plain
    originals = _repeats(head, request, timestamp_us) if request.has_identity else ()
    if not originals and expected is not None and expected != head.next:
        raise ConflictError(
            "the partition does not end at the expected offset, read to its end and try again",
            expected_offset=expected,
            end=head.next,
        )
    return Decision(timestamp_us, originals)


def record_identities(
    head: PartitionHead, request: AppendRequest, decision: Decision, start: int
) -> None:
    """Add the identities of the records about to be stored from `start` on."""
    timestamp_us, originals = decision
    if request.idempotency_key is not None:
        original = Original(Offset(start), timestamp_us, len(request.drafts))
        index = head.identities(timestamp_us)
        index.add_key(request.tenant, request.idempotency_key, original)
    elif is_lane(request.producer):
        # The last sequence identifies all: the append is atomic.
        original = Original(Offset(start + len(request.drafts) - 1), timestamp_us)
        index = head.identities(timestamp_us)
        index.add_sequence(request.tenant, request.producer, request.sequences[-1], original)
    elif request.producer is not None:
        index = head.identities(timestamp_us)
        for offset, sequence in enumerate(request.sequences[len(originals) :], start):
            original = Original(Offset(offset), timestamp_us)
            index.add_sequence(request.tenant, request.producer, sequence, original)


def _repeats(head: PartitionHead, request: AppendRequest, now_us: int) -> Sequence[Original]:
    index, tenant = head.identities(now_us), request.tenant
    if request.idempotency_key is not None:
        original = index.find_key(tenant, request.idempotency_key, len(request.drafts))
        return () if original is None else original.each()
    assert request.producer is not None
    if is_lane(request.producer):
        last = index.find_sequence(tenant, request.producer, request.sequences[-1])
        return () if last is None else _all_before(last, len(request.drafts))
    # Sequences rise, so repeated values come first.
    each = [index.find_sequence(tenant, request.producer, number) for number in request.sequences]
    return [original for original in each if original is not None]


def _all_before(last: Original, count: int) -> Sequence[Original]:
    """Return where each record of an append went, given the last one."""
    first = last.offset - count + 1
    return Original(Offset(first), last.timestamp_us, count).each()
