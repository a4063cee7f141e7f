"""Identifies a consumer: topic, name and tenant."""

from typing import NamedTuple

from strandline.log.terms import owner
from strandline.values import Tenant, Topic


class ConsumerName(NamedTuple):
    """One consumer of a topic; the same for all its members."""

    topic: Topic
    name: str
    tenant: Tenant | None
    """The argument: None in a tenant's topic stands for that tenant."""

    @property
    def owner(self) -> Tenant | None:
        """The consumer's tenant."""
        return owner(self.topic, self.tenant)
