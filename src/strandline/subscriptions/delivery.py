"""A record in a consumer's hands."""

from dataclasses import dataclass
from typing import Final

from strandline.values import Record

NEVER_HANDLED: Final = "delivered as often as allowed, and never acked"
"""Why a record is dead-lettered whose deliveries all ended without an ack or a nack."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record handed to a consumer."""

    record: Record
    count: int
    """How often the consumer was given it, this time and earlier processes included."""
