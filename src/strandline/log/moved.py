"""Rules for copying a log record by record to another store. See design 0099."""

from collections.abc import Iterable
from typing import Any

from strandline.log.decide import IdentityIndex
from strandline.log.identities import IdentityState, Original
from strandline.values import InvalidError, Offset, Tenant

NO_IDENTITIES = IdentityState([], [])


def check_unused(high: int) -> None:
    """Raise InvalidError if the partition has had records: it cannot begin at another offset."""
    if high:
        raise InvalidError("this partition has had records, copy to a new log", high=high)


def identities_before(state: IdentityState, end: int) -> IdentityState:
    """Return the identities of records before `end`."""
    producers = []
    for tenant, name, seen_at_us, originals in state.producers:
        kept = [each for each in originals if each[1] < end]
        if kept:
            producers.append((tenant, name, seen_at_us, kept))
    return IdentityState(producers, [each for each in state.keys if each[2] < end])


def identity_state(
    producers: Iterable[Any], sequences: Iterable[Any], keys: Iterable[Any]
) -> IdentityState:
    """Return identities that were read as rows, each oldest first.

    `producers` are rows of tenant, name and when last seen; `sequences` of tenant, name,
    sequence, offset and timestamp; `keys` of tenant, key, offset, timestamp and number of
    records. An empty tenant stands for none.
    """
    originals: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for tenant, name, sequence, offset, timestamp_us in sequences:
        originals.setdefault((tenant, name), []).append((sequence, offset, timestamp_us))
    return IdentityState(
        [
            (tenant or None, name, at, originals.get((tenant, name), []))
            for tenant, name, at in producers
        ],
        [(tenant or None, *rest) for tenant, *rest in keys],
    )


def add_identities(index: IdentityIndex, state: IdentityState) -> None:
    """Add the identities of records that another store has stored."""
    for tenant, name, _, originals in state.producers:
        for sequence, offset, timestamp_us in originals:
            original = Original(Offset(offset), timestamp_us)
            index.add_sequence(_owner(tenant), name, sequence, original)
    for tenant, key, offset, timestamp_us, records in state.keys:
        index.add_key(_owner(tenant), key, Original(Offset(offset), timestamp_us, records))


def _owner(tenant: str | None) -> Tenant | None:
    return Tenant(tenant) if tenant else None
