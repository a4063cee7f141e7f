"""Tickets and commands on a topic, as plain JSON."""

from datetime import datetime
from typing import Any, Final, Literal, TypeVar

import msgspec
from pyarrow import flight

from strandline.values import DurabilityName, InvalidError

TicketT = TypeVar("TicketT", bound=msgspec.Struct)
_BYTES_MAX: Final = 1024 * 1024


class ReadTicket(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Which rows of a topic `do_get` returns."""

    topic: str
    partitions: list[int] | None = None
    start: int | str | dict[int, int] = "earliest"
    """For each partition an offset, or for all: earliest, latest, an offset, -n, a time."""
    end: int | dict[int, int] | None = None
    predicate: str = ""
    columns: list[str] | None = None
    durable_only: bool = False
    follow: bool = False
    """Whether the stream continues with new records."""
    after: str = ""
    """The last `after` of the stream to resume."""


class PutCommand(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How `do_put` appends."""

    topic: str
    key: str | None = None
    partition: int | None = None
    durability: DurabilityName | None = None
    timeout_s: float | None = None
    producer: str | None = None
    sequence: int | None = None
    idempotency_key: str | None = None
    deliver_at: datetime | None = None
    receipts: Literal["end", "batch"] = "end"
    """Whether one answer is sent at the end, or one for each batch."""


def ticket_of(packed: bytes, kind: type[TicketT]) -> TicketT:
    """Return a ticket; InvalidError for anything else."""
    if len(packed) > _BYTES_MAX:
        raise InvalidError("this ticket is too large", bytes=len(packed), bytes_max=_BYTES_MAX)
    try:
        return msgspec.json.decode(packed, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError(
            'a ticket or command is JSON, as {"topic": "orders"}', reason=str(error)
        ) from None


def described(descriptor: Any, kind: type[TicketT]) -> TicketT:
    """Return what a `flight.FlightDescriptor` asks for: a topic by its path, or a command."""
    if descriptor.descriptor_type == flight.DescriptorType.PATH:
        if len(descriptor.path) != 1:
            raise InvalidError("the path of a topic is its name", path=descriptor.path)
        return msgspec.convert({"topic": _name(descriptor.path[0])}, kind)
    return ticket_of(descriptor.command or b"", kind)


def _name(part: bytes | str) -> str:
    return part.decode(errors="replace") if isinstance(part, bytes) else part
