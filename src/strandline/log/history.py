"""A partition's records as they are stored, for checks and copies."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from strandline.values import Offset, Partition, ProofFinding, Tenant
from strandline.values.prompt import prompt_text

if TYPE_CHECKING:
    from strandline.log.chain import Chain


class EventBody(NamedTuple):
    """The stored parts of an event, except its key, which is stored with the record."""

    kind: str
    payload_json: bytes
    headers_json: bytes
    occurred_at_us: int | None


Body: TypeAlias = "EventBody | bytes | pa.Buffer"
"""The stored form of a value. A batch is stored as a separate Arrow IPC stream."""


class Kept(Protocol):
    """A stored record, whatever the store."""

    @property
    def offset(self) -> Offset:
        """Its offset."""

    @property
    def timestamp_us(self) -> int:
        """When it was appended."""

    @property
    def key(self) -> str | None:
        """Its key."""

    @property
    def tenant(self) -> Tenant | None:
        """Its tenant."""

    @property
    def body(self) -> Body:
        """The stored form of its value."""


class Piece(NamedTuple):
    """Adjacent records, and the chain's value that is stored after the last of them.

    Without records: the chain's value that is stored for everything before.
    """

    entries: Sequence[Kept]
    value: bytes | None


class Damage(NamedTuple):
    """A run of records that cannot be read: [offset, stop)."""

    offset: int
    stop: int
    reason: str


class History(NamedTuple):
    """The records of [low, high), in order, and the state of their proof."""

    partition: Partition
    low: int
    high: int
    chain: "Chain"
    #: In a topic with a proof: the chain's value before `low`, if it is known.
    anchor: bytes | None
    is_proved: bool
    #: To be read once. Findings among them were met while reading the storage.
    pieces: Iterable[Piece | Damage | ProofFinding]

    def __repr__(self) -> str:
        return prompt_text(
            "History", partition=self.partition, low=self.low, high=self.high, proved=self.is_proved
        )
