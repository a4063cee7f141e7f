"""The key of a work queue in its topic's keyed area, and its cursor. See design 0096."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

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
    """Return the cursor of a queue, with the id of its last seek. Raises as `log.cursor`."""
    found = log._access.cursor(topic, consumer, partition, tenant)  # noqa: SLF001 - A part of the log.
    return log._cursors.stored(*found)  # noqa: SLF001


def queue_cursors(
    log: "Log", topic: Topic, consumer: str, count: int, tenant: str | None
) -> "Iterator[ConsumerCursor | None]":
    """Yield the same for each of the first `count` partitions, with one read of the store."""
    found, whose, name = log._access.consumer(topic, consumer, tenant)  # noqa: SLF001 - A part of the log.
    found = log._access.with_partitions(found, (count - 1,))  # noqa: SLF001
    return log._cursors.stored_in(found, range(count), whose, name)  # noqa: SLF001
