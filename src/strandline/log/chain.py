"""The hash chain over the records of a partition. See design 0022."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from struct import Struct
from uuid import UUID

from strandline.log.erased import erased_digest
from strandline.log.history import Body, EventBody, Kept
from strandline.values import Offset, Partition, ProofHead, ValueKind
from strandline.values.prompt import prompt_text

_ORIGIN = Struct("<16s16sI")
#: Topic id, partition, offset, timestamp, has occurred_at, occurred_at, five lengths.
_pack = Struct("<16sIQqBqqqqqq").pack
_ABSENT = -1


class Chain:
    """Computes the hash chain of one partition; holds no mutable state."""

    __slots__ = ("_kind", "_log_id", "_partition", "_topic_bytes", "_topic_id")

    def __init__(self, log_id: UUID, topic_id: UUID, partition: int, kind: ValueKind) -> None:
        self._log_id = log_id
        self._topic_id = topic_id
        self._topic_bytes = topic_id.bytes
        self._partition = partition
        self._kind = kind

    def __repr__(self) -> str:
        return prompt_text("Chain", topic_id=str(self._topic_id), partition=self._partition)

    @property
    def origin(self) -> bytes:
        """The chain's value before offset 0."""
        packed = _ORIGIN.pack(self._log_id.bytes, self._topic_id.bytes, self._partition)
        return sha256(b"strandline history 1" + packed + self._kind.encode()).digest()

    def digest(
        self,
        offset: int,
        timestamp_us: int,
        key: str | None,
        tenant: str | None,
        body: Body,
    ) -> bytes:
        """Return the digest of a record; for an erased one, that of its original content."""
        erased = erased_digest(body) if key is None else None
        if erased is not None:
            return erased
        key_bytes = b"" if key is None else key.encode()
        tenant_bytes = b"" if tenant is None else tenant.encode()
        if isinstance(body, EventBody):
            name, value, headers, occurred_at_us = body
            kind = name.encode()
            lengths = len(kind), len(headers), len(value)
        else:
            kind, value, headers, occurred_at_us = b"", body, b"", None
            lengths = _ABSENT, _ABSENT, len(value)
        packed = _pack(
            self._topic_bytes,
            self._partition,
            offset,
            timestamp_us,
            occurred_at_us is not None,
            occurred_at_us or 0,
            _ABSENT if key is None else len(key_bytes),
            _ABSENT if tenant is None else len(tenant_bytes),
            *lengths,
        )
        return sha256(b"".join((packed, key_bytes, tenant_bytes, kind, headers, value))).digest()

    def digest_kept(self, entry: Kept) -> bytes:
        """Return the digest of a stored record."""
        return self.digest(entry.offset, entry.timestamp_us, entry.key, entry.tenant, entry.body)

    def link_kept(self, before: bytes, entry: Kept) -> bytes:
        """Return the chain's value after a stored record."""
        return link(before, self.digest_kept(entry))

    def link_each(self, before: bytes, digests: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chain's value after each record, given their digests in order."""
        for digest in digests:
            before = link(before, digest)
            yield before

    def head(self, offset: int, value: bytes) -> ProofHead:
        """Return the chain's value before `offset`, in the form to keep elsewhere."""
        partition = Partition(self._partition)
        return ProofHead(self._log_id, self._topic_id, partition, Offset(offset), value)


def link(before: bytes, digest: bytes) -> bytes:
    """Return the chain's value after a record of this digest."""
    return sha256(before + digest).digest()
