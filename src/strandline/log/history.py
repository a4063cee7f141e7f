"""A partition's records as they are stored, for checks and copies."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from strandline.values import Offset, Partition, ProofFinding, Tenant
from strandline.values.prompt import prompt_text

if TYPE_CHECKING:
    from strandline.log.chain import Chain


class EventBody(NamedTuple):
    """The stored parts of an event, but for its key, which the record has."""

    kind: str
    payload_json: bytes
    headers_json: bytes
    occurred_at_us: int | None


Body: TypeAlias = "EventBody | bytes | pa.Buffer"
"""What is stored of a value. A batch is stored as an Arrow IPC stream of its own."""


class Kept(Protocol):
    """A record as any backend keeps it."""

    @property
    def offset(self) -> Offset:
        """Where it is."""

    @property
    def timestamp_us(self) -> int:
        """When it was appended."""

    @property
    def key(self) -> str | None:
        """Its key."""

    @property
    def tenant(self) -> Tenant | None:
        """Whose it is."""

    @property
    def body(self) -> Body:
        """What is stored of its value."""


class Piece(NamedTuple):
    """Adjacent records, and the chain's value that is stored for the last of them.

    Without records: the value that is stored for what lies before.
    """

    entries: Sequence[Kept]
    value: bytes | None


class Damage(NamedTuple):
    """A run of records that cannot be read: [offset, stop)."""

    offset: int
    stop: int
    reason: str


class History(NamedTuple):
    """The records of [low, high), in order, and what is known of their proof."""

    partition: Partition
    low: int
    high: int
    chain: "Chain"
    #: In a topic with a proof: the chain's value before `low`, where it is known.
    anchor: bytes | None
    is_proved: bool
    #: Once. A finding is one that the reader of the storage has met.
    pieces: Iterable[Piece | Damage | ProofFinding]

    def __repr__(self) -> str:
        return prompt_text(
            "History", partition=self.partition, low=self.low, high=self.high, proved=self.is_proved
        )
