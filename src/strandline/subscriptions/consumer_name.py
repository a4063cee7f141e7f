"""Which consumer is meant: by its topic, its name, and whose it is."""

from typing import NamedTuple

from strandline.log.terms import owner
from strandline.values import Tenant, Topic


class ConsumerName(NamedTuple):
    """One consumer of a topic: each of its members has the same."""

    topic: Topic
    name: str
    tenant: Tenant | None
    """As it was passed: None in a topic of a tenant stands for that one."""

    @property
    def owner(self) -> Tenant | None:
        """Whose consumer it is."""
        return owner(self.topic, self.tenant)
