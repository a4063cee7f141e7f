"""The key of a work queue in its topic's keyed area. See design 0096."""

from typing import Final

from strandline.values import Tenant

QUEUES_PREFIX: Final = "queues/"


def queue_key(tenant: Tenant | None, consumer: str, partition: int) -> str:
    """Return the key of one partition of a work queue."""
    return f"{QUEUES_PREFIX}{tenant or ''}/{consumer}/{partition}"
