"""A record together with its delivery count."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from strandline.values import InvalidError, Record

NEVER_HANDLED: Final = "delivered as often as allowed, and never acked"
"""The reason for dead-lettering a record whose deliveries all ended without ack or nack."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record that was delivered to a consumer."""

    record: Record
    count: int
    """How often it was delivered to the consumer, this time and earlier processes included."""
    generation: int = field(default=0, compare=False, repr=False)
    """The generation in which the consumer held the partition. See `LeaseLostError`."""

    # Hidden from type checkers: with __getattr__, every attribute would seem to exist.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"a delivery has no {name!r}, use its record: .record.{name}")


def record_of(delivered: Record | Delivery) -> Record:
    """Return the record; InvalidError for anything but a record or a delivery."""
    record = delivered.record if isinstance(delivered, Delivery) else delivered
    if isinstance(record, Record):
        return record
    raise InvalidError(
        "pass the delivery that the consumer returned, or its record", type=type(delivered).__name__
    )
