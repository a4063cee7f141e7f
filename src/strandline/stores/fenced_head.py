"""The end of a partition while appends are decided, before they are stored."""

from typing import Protocol

from strandline.clock import Clock
from strandline.log.chain import Chain
from strandline.log.identities import (
    Identities,
    Original,
    check_same_count,
    passed_sequence,
)
from strandline.log.record_lists import admit
from strandline.log.store import AppendRequest, Placement
from strandline.log.stored_records import StoredRecord
from strandline.stores.append_queue import WaitingAppend
from strandline.stores.frame_records import FrameIdentity
from strandline.values import Offset, StrandlineError, Tenant


class EndOfFrames(Protocol):
    """The end of a partition."""

    @property
    def next(self) -> int:
        """The offset of the next record."""

    @property
    def last_us(self) -> int:
        """The timestamp of the last record."""

    @property
    def value(self) -> bytes | None:
        """The chain's value at the end; None in a topic without a proof."""

    @property
    def bytes_total(self) -> int:
        """The size of all records ever appended, as counted against limits."""


class AddedIdentities:
    """Implements IdentityIndex over stored identities; added ones are kept separately."""

    def __init__(self, known: Identities) -> None:
        self._known = known
        self.added: list[FrameIdentity] = []
        self._keys: dict[tuple[Tenant | None, str], Original] = {}
        self._sequences: dict[tuple[Tenant | None, str], dict[int, Original]] = {}

    def find_key(self, tenant: Tenant | None, key: str, count: int) -> Original | None:
        original = self._keys.get((tenant, key))
        if original is None:
            return self._known.find_key(tenant, key, count)
        check_same_count(key, count, original.records)
        return original

    def find_sequence(self, tenant: Tenant | None, name: str, sequence: int) -> Original | None:
        added = self._sequences.get((tenant, name), {})
        if sequence in added:
            return added[sequence]
        found = self._known.find_sequence(tenant, name, sequence)
        if found is None and added and sequence < max(added):
            raise passed_sequence(name, sequence, max(added))
        return found

    def add_key(self, tenant: Tenant | None, key: str, original: Original) -> None:
        self._keys[tenant, key] = original
        self.added.append(FrameIdentity(tenant, key, None, *original))

    def add_sequence(
        self, tenant: Tenant | None, name: str, sequence: int, original: Original
    ) -> None:
        self._sequences.setdefault((tenant, name), {})[sequence] = original
        self.added.append(FrameIdentity(tenant, name, sequence, *original))


class FencedHead:
    """The end of a partition while appends are decided. Implements PartitionHead."""

    def __init__(self, head: "EndOfFrames", known: Identities | None) -> None:
        self.next: int = head.next
        self.last_us: int = head.last_us
        self.value = head.value
        self._known = known
        self.index: AddedIdentities = AddedIdentities(Identities() if known is None else known)
        self.records: list[StoredRecord] = []

    def identities(self, now_us: int) -> AddedIdentities:
        assert self._known is not None
        self._known.expire(now_us)
        return self.index

    def apply(self, request: AppendRequest, now_us: int, chain: Chain) -> Placement:
        """Decide on an append, and add its records."""
        placement, records = admit(self, request, now_us, chain, self.value)
        if records:
            self.records += records
            self.next += len(records)
            self.last_us = placement.timestamp_us
            self.value = records[-1].value
        return placement

    def apply_each(
        self, batch: list[WaitingAppend], clock: Clock, chain: Chain
    ) -> list[Placement | StrandlineError]:
        """Decide on the appends of a batch; return the outcome of each."""
        results: list[Placement | StrandlineError] = []
        for each in batch:
            try:
                results.append(self.apply(each.request, clock.now_us(), chain))
            except StrandlineError as error:
                results.append(error)
        return results


def fold(known: Identities, added: list[FrameIdentity]) -> None:
    """Add the identities of a frame to those recognised."""
    for each in added:
        tenant = None if each.tenant is None else Tenant(each.tenant)
        original = Original(Offset(each.offset), each.timestamp_us, each.records)
        if each.sequence is None:
            known.add_key(tenant, each.name, original)
        else:
            known.add_sequence(tenant, each.name, each.sequence, original)
