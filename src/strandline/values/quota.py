"""What a tenant may use of a log, and what it uses."""

from dataclasses import dataclass
from typing import TypedDict

from strandline.values.tenant import Tenant
from strandline.values.topic import Limit


class QuotaLimits(TypedDict, total=False):
    """What `set_quota` changes, by name; see Quota. None removes a limit."""

    bytes_max: Limit
    records_per_s: Limit
    bytes_per_s: Limit
    topics_max: Limit


@dataclass(frozen=True, slots=True)
class Quota:
    """What a tenant may use; None stands for no limit. See design 0124."""

    bytes_max: int | None = None
    """How much its topics may hold together, as `describe_topic(…).size_bytes` counts it."""
    records_per_s: int | None = None
    """How many records may be appended for it in a second, by all processes together."""
    bytes_per_s: int | None = None
    """How much may be appended for it in a second, by all processes together."""
    topics_max: int | None = None
    """How many topics it may have."""

    @property
    def is_empty(self) -> bool:
        """Whether it limits nothing."""
        return self == _NOTHING

    @property
    def has_rate(self) -> bool:
        """Whether it limits what is appended in a second."""
        return self.records_per_s is not None or self.bytes_per_s is not None


_NOTHING = Quota()


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """A tenant's quota, and how much of it is used."""

    tenant: Tenant
    quota: Quota
    bytes: int
    """What its topics hold now."""
    topics: int
    """How many topics it has now."""
