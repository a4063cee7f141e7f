"""Reconstructs the appends of stored records, as far as possible."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from strandline.log import AppendRequest, EventBody, Kept
from strandline.log.draft import Draft, load_batch
from strandline.log.identities import IdentityState
from strandline.values import Tenant, ValueKind

#: Adjacent records with one timestamp are one append, within these limits.
RECORDS_MAX: Final = 1000
BYTES_MAX: Final = 4 * 1024 * 1024


class WriteIdentity(NamedTuple):
    """The identity of a write."""

    tenant: Tenant | None
    producer: str | None
    sequence: int
    idempotency_key: str | None
    #: The number of its records.
    records: int


class WriteIdentities:
    """The writes that a partition recognises, by their offsets."""

    def __init__(self, state: IdentityState) -> None:
        self._at: dict[int, WriteIdentity] = {}
        for tenant, name, _, originals in state.producers:
            for sequence, offset, _ in originals:
                self._at[offset] = WriteIdentity(_owner(tenant), name, sequence, None, 1)
        for tenant, key, offset, _, records in state.keys:
            self._at[offset] = WriteIdentity(_owner(tenant), None, 0, key, records)

    def at(self, offset: int) -> WriteIdentity | None:
        """Return the identity of the write that begins at this offset."""
        return self._at.get(offset)


class _Pending:
    """Records that will be one append."""

    def __init__(self, first: Kept, identity: WriteIdentity | None) -> None:
        self.first = first
        self.identity = identity
        self.drafts: list[Draft] = []
        self.sequences: list[int] = []
        self.size_bytes = 0

    def takes(self, entry: Kept, identity: WriteIdentity | None) -> bool:
        """Whether the next record belongs to the same append."""
        mine = self.identity
        if mine is not None and mine.idempotency_key is not None:
            return len(self.drafts) < mine.records
        if len(self.drafts) >= RECORDS_MAX or self.size_bytes >= BYTES_MAX:
            return False
        if (entry.timestamp_us, entry.tenant) != (self.first.timestamp_us, self.first.tenant):
            return False
        if mine is None or identity is None:
            return mine is identity
        same = (identity.tenant, identity.producer) == (mine.tenant, mine.producer)
        return same and identity.sequence > self.sequences[-1]

    def add(self, entry: Kept, identity: WriteIdentity | None, kind: ValueKind) -> None:
        size_bytes = size_of_kept(entry, kind)
        self.drafts.append(Draft(entry.key, entry.body, size_bytes))
        self.size_bytes += size_bytes
        if identity is not None and identity.producer is not None:
            self.sequences.append(identity.sequence)

    def request(self) -> AppendRequest:
        identity = self.identity
        return AppendRequest(
            self.drafts,
            self.first.tenant,
            None if identity is None else identity.producer,
            self.sequences,
            None if identity is None else identity.idempotency_key,
            self.first.offset,
            self.first.timestamp_us,
        )


def requests_of(
    entries: Iterable[Kept], identities: WriteIdentities, kind: ValueKind
) -> Iterator[AppendRequest]:
    """Yield the appends that store these records with the same offsets and timestamps."""
    pending: _Pending | None = None
    for entry in entries:
        identity = identities.at(entry.offset)
        if pending is None or not pending.takes(entry, identity):
            if pending is not None:
                yield pending.request()
            pending = _Pending(entry, identity)
        pending.add(entry, identity, kind)
    if pending is not None:
        yield pending.request()


def size_of_kept(entry: Kept, kind: ValueKind) -> int:
    """Return the size of a stored record, which equals the size of its draft."""
    size = 0 if entry.key is None else len(entry.key.encode())
    body = entry.body
    if isinstance(body, EventBody):
        return size + len(body.kind.encode()) + len(body.payload_json) + len(body.headers_json)
    return size + (int(load_batch(body).nbytes) if kind is ValueKind.BATCH else len(body))


def _owner(tenant: str | None) -> Tenant | None:
    return Tenant(tenant) if tenant else None
