"""The quota of a tenant of a log, and its use."""

from dataclasses import dataclass
from typing import TypedDict

from strandline.values.tenant import Tenant
from strandline.values.topic import Limit


class QuotaLimits(TypedDict, total=False):
    """The arguments of `set_quota`, see Quota. None removes a limit."""

    bytes_max: Limit
    records_per_s: Limit
    bytes_per_s: Limit
    topics_max: Limit


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a tenant; None means no limit. See design 0124."""

    bytes_max: int | None = None
    """The maximum size of all its topics, as counted by `describe_topic(…).size_bytes`."""
    records_per_s: int | None = None
    """The maximum rate of appended records, of all processes together."""
    bytes_per_s: int | None = None
    """The maximum rate of appended bytes, of all processes together."""
    topics_max: int | None = None
    """The maximum number of its topics."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no limits."""
        return self == _NOTHING

    @property
    def has_rate(self) -> bool:
        """Whether it limits a rate."""
        return self.records_per_s is not None or self.bytes_per_s is not None


_NOTHING = Quota()


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """A tenant's quota, and how much of it is used."""

    tenant: Tenant
    quota: Quota
    bytes: int
    """The current size of its topics."""
    topics: int
    """The current number of its topics."""
