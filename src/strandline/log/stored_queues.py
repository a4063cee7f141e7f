"""A work queue in its topic's keyed area, and the cursor that it follows. See design 0096."""

from typing import TYPE_CHECKING, Final
from uuid import UUID

from strandline.values import Tenant, Topic

if TYPE_CHECKING:
    from strandline.log.lags import ConsumerCursor
    from strandline.log.log import Log

QUEUES_PREFIX: Final = "queues/"


def queue_key(tenant: Tenant | None, consumer: str, partition: int) -> str:
    """Return the key of one partition of a work queue."""
    return f"{QUEUES_PREFIX}{tenant or ''}/{consumer}/{partition}"


def queue_cursor(
    log: "Log", topic: Topic, consumer: str, partition: int, tenant: str | None
) -> "ConsumerCursor | None":
    """Return the cursor of a queue, and which seek has put it there. Raises as `log.cursor`."""
    found = log._access.cursor(topic, consumer, partition, tenant)  # noqa: SLF001 - A part of the log.
    return log._cursors.stored(*found)  # noqa: SLF001


def ack_since(
    log: "Log",
    topic: Topic,
    consumer: str,
    partition: int,
    end: int,
    *,
    tenant: str | None,
    seek_id: UUID | None,
) -> None:
    """Move a cursor as `log.ack`; ConflictError if it was put elsewhere since this seek."""
    found, number, whose, name = log._access.moved(topic, consumer, partition, tenant, end)  # noqa: SLF001
    log._counts.acks += 1  # noqa: SLF001 - A part of the log.
    log._cursors.ack(found, number, whose, name, end, seek_id=seek_id)  # noqa: SLF001
