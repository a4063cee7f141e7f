"""Which writes a partition has stored, so that a repeated write is stored once."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, overload

import msgspec

from strandline.values import (
    IDEMPOTENCY_KEYS_KEPT,
    IDENTITY_AGE_S,
    PRODUCER_SEQUENCES_KEPT,
    ConflictError,
    Offset,
    Tenant,
)

_AGE_US = IDENTITY_AGE_S * 1_000_000


class Original(NamedTuple):
    """Where a write was first stored: `records` records, from `offset` on."""

    offset: Offset
    timestamp_us: int
    records: int = 1

    def each(self) -> "Sequence[Original]":
        """Return where each of the records went."""
        return EachOriginal(self)


class EachOriginal(Sequence[Original]):
    """Where each record of one write went; each place is made when it is asked for."""

    def __init__(self, whole: Original) -> None:
        self._whole = whole

    def __len__(self) -> int:
        return self._whole.records

    @overload
    def __getitem__(self, index: int) -> Original: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Original]: ...
    def __getitem__(self, index: int | slice) -> Original | Sequence[Original]:
        offset, timestamp_us, records = self._whole
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(records))]
        return Original(Offset(range(offset, offset + records)[index]), timestamp_us)


class IdentityState(msgspec.Struct, frozen=True):
    """Identities as they are stored, oldest first."""

    #: Tenant, name, when last seen, and the sequences with their offset and timestamp.
    producers: list[tuple[str | None, str, int, list[tuple[int, int, int]]]]
    #: Tenant, key, offset, timestamp and number of records.
    keys: list[tuple[str | None, str, int, int, int]]


class _Producer:
    """The latest sequences of one producer, oldest first."""

    def __init__(self) -> None:
        self.originals: OrderedDict[int, Original] = OrderedDict()
        self.latest = -1
        self.seen_at_us = 0


class Identities:
    """The writes that one partition recognises. Not thread-safe."""

    def __init__(self) -> None:
        # Invariant: both are in the order of append time, oldest first.
        self._producers: OrderedDict[tuple[Tenant | None, str], _Producer] = OrderedDict()
        self._keys: OrderedDict[tuple[Tenant | None, str], Original] = OrderedDict()

    @classmethod
    def of(cls, state: "IdentityState", end: int) -> "Identities":
        """Return the identities stored in `state`, for records before `end`."""
        identities = cls()
        for tenant, name, seen_at_us, originals in state.producers:
            producer = _Producer()
            producer.seen_at_us = seen_at_us
            for sequence, offset, timestamp_us in originals:
                if offset < end:
                    producer.originals[sequence] = Original(Offset(offset), timestamp_us)
                    producer.latest = sequence
            if producer.originals:
                identities._producers[_owner(tenant), name] = producer
        for tenant, key, offset, timestamp_us, records in state.keys:
            if offset < end:
                original = Original(Offset(offset), timestamp_us, records)
                identities._keys[_owner(tenant), key] = original
        return identities

    def state(self) -> "IdentityState":
        """Return everything in a form that can be stored."""
        return IdentityState(
            [
                (
                    tenant,
                    name,
                    producer.seen_at_us,
                    [(number, *one[:2]) for number, one in producer.originals.items()],
                )
                for (tenant, name), producer in self._producers.items()
            ],
            [(tenant, key, *original) for (tenant, key), original in self._keys.items()],
        )

    def expire(self, now_us: int) -> None:
        """Remove identities older than IDENTITY_AGE_S at the append time `now_us`."""
        while self._producers:
            name, producer = next(iter(self._producers.items()))
            if now_us - producer.seen_at_us <= _AGE_US:
                break
            del self._producers[name]
        while self._keys:
            key, original = next(iter(self._keys.items()))
            if now_us - original.timestamp_us <= _AGE_US:
                break
            del self._keys[key]

    def find_sequence(self, tenant: Tenant | None, name: str, sequence: int) -> Original | None:
        """Return where this sequence went; None if it is new; ConflictError if it was skipped."""
        producer = self._producers.get((tenant, name))
        if producer is None or sequence > producer.latest:
            return None
        original = producer.originals.get(sequence)
        if original is None:
            raise passed_sequence(name, sequence, producer.latest)
        return original

    def add_sequence(
        self, tenant: Tenant | None, name: str, sequence: int, original: Original
    ) -> None:
        """Record where a new sequence went."""
        producer = self._producers.setdefault((tenant, name), _Producer())
        self._producers.move_to_end((tenant, name))
        producer.latest = sequence
        producer.seen_at_us = original.timestamp_us
        producer.originals[sequence] = original
        if len(producer.originals) > PRODUCER_SEQUENCES_KEPT:
            producer.originals.popitem(last=False)

    def find_key(self, tenant: Tenant | None, key: str, count: int) -> Original | None:
        """Return where the write of this key went, or None if it is new.

        ConflictError if it had another number of records.
        """
        original = self._keys.get((tenant, key))
        if original is not None:
            check_same_count(key, count, original.records)
        return original

    def add_key(self, tenant: Tenant | None, key: str, original: Original) -> None:
        """Record where the write of a new key went."""
        self._keys[tenant, key] = original
        if len(self._keys) > IDEMPOTENCY_KEYS_KEPT:
            self._keys.popitem(last=False)


def check_same_count(key: str, count: int, then: int) -> None:
    """Raise ConflictError if a key is reused for another number of values."""
    if count != then:
        raise ConflictError(
            "this idempotency key was used for another number of values, choose a new one",
            idempotency_key=key,
            values=count,
            values_then=then,
        )


def passed_sequence(producer: str, sequence: int, latest: int) -> ConflictError:
    """Return the error for a sequence that is skipped or too old to be recognised."""
    return ConflictError(
        "this producer has gone past that sequence, continue after the latest one",
        producer=producer,
        sequence=sequence,
        latest=latest,
    )


def _owner(tenant: str | None) -> Tenant | None:
    return None if tenant is None else Tenant(tenant)
