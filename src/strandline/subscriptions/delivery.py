"""A record, as it is delivered to a consumer."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from strandline.values import InvalidError, Record

NEVER_HANDLED: Final = "delivered as often as allowed, and never acked"
"""Why a record is dead-lettered whose deliveries all ended without an ack or a nack."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record that was delivered to a consumer."""

    record: Record
    count: int
    """How often the consumer was given it, this time and earlier processes included."""
    generation: int = field(default=0, compare=False, repr=False)
    """That in which the consumer held the partition. See `LeaseLostError`."""

    # Hidden from type checkers, to which any name would exist then.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"a delivery has no {name!r}, but see its record: .record.{name}")


def record_of(delivered: Record | Delivery) -> Record:
    """Return the record that is meant; InvalidError if it is neither a record nor a delivery."""
    record = delivered.record if isinstance(delivered, Delivery) else delivered
    if isinstance(record, Record):
        return record
    raise InvalidError(
        "pass the delivery that the consumer gave, or its record", type=type(delivered).__name__
    )
