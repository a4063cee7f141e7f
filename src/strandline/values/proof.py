"""Heads and reports of the proof of a partition's history."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import msgspec

from strandline.values.errors import InvalidError
from strandline.values.topic import Offset, Partition

_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class ProofHead:
    """A digest of all records before `offset`, to be kept where no other process can change it."""

    log_id: UUID
    topic_id: UUID
    partition: Partition
    offset: Offset
    digest: bytes

    def to_json(self) -> bytes:
        """Return the head as versioned JSON."""
        return msgspec.json.encode(
            _ProofHeadV1(
                1,
                self.log_id,
                self.topic_id,
                self.partition,
                self.offset,
                self.digest.hex(),
            )
        )

    @classmethod
    def from_json(cls, data: bytes) -> "ProofHead":
        """Return the head that `to_json` has encoded; InvalidError for anything else."""
        try:
            stored = _decode(data)
            digest = bytes.fromhex(stored.digest)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise InvalidError("this is not a stored head of a proof", reason=str(error)) from error
        if min(stored.partition, stored.offset) < 0 or len(digest) != _DIGEST_BYTES:
            raise InvalidError("the numbers of a head are not negative, its digest has 32 bytes")
        return cls(
            stored.log_id,
            stored.topic_id,
            Partition(stored.partition),
            Offset(stored.offset),
            digest,
        )


@dataclass(frozen=True, slots=True)
class ProofFinding:
    """A difference between what is stored and what was written."""

    offset: Offset
    """The first affected offset."""
    reason: str
    """The reason, for people."""


@dataclass(frozen=True, slots=True)
class ProofReport:
    """The result of a check of one partition."""

    partition: Partition
    start: Offset
    """The first offset checked: the low-water mark, where the anchor is."""
    end: Offset
    """One past the last offset checked."""
    records: int
    """The number of records checked."""
    is_proved: bool
    """Whether the topic has a proof; without one, only checksums and order were checked."""
    head: ProofHead | None
    """The head at `end`; None if there are findings, or no proof."""
    findings: tuple[ProofFinding, ...]
    erased: int = 0
    """How many of the records were erased: the proof has only their digests."""

    @property
    def is_sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


class _ProofHeadV1(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    log_id: UUID
    topic_id: UUID
    partition: int
    offset: int
    digest: str


_decode = msgspec.json.Decoder(_ProofHeadV1).decode
