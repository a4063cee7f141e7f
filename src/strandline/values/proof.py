"""What is known of a partition's history, and what came of checking it."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import msgspec

from strandline.values.errors import InvalidError
from strandline.values.topic import Offset, Partition

_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class ProofHead:
    """A digest of everything before `offset`, to be kept where no other process can change it."""

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
        """Return what `to_json` was called on; raise InvalidError for anything else."""
        try:
            stored = _decode(data)
            digest = bytes.fromhex(stored.digest)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise InvalidError("this is no stored head of a proof", reason=str(error)) from error
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
    """Something that is not as it was written."""

    offset: Offset
    """The first offset that it concerns."""
    reason: str
    """What is wrong, for people."""


@dataclass(frozen=True, slots=True)
class ProofReport:
    """The result of a check of one partition."""

    partition: Partition
    start: Offset
    """The first offset checked: the low-water mark, where the anchor is."""
    end: Offset
    """One past the last offset checked."""
    records: int
    """How many there were."""
    is_proved: bool
    """Whether the topic keeps a proof; without one, checksums and order were checked alone."""
    head: ProofHead | None
    """The head at `end`; None if anything is wrong, or nothing is proved."""
    findings: tuple[ProofFinding, ...]
    erased: int = 0
    """How many of the records were erased: of these the digests alone are in the proof."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


class _ProofHeadV1(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    log_id: UUID
    topic_id: UUID
    partition: int
    offset: int
    digest: str


_decode = msgspec.json.Decoder(_ProofHeadV1).decode
