"""Who holds a lease: a process of a host, with proof of its end where the store has one."""

import os
from typing import NamedTuple, Self

from strandline.clock import Clock
from strandline.log import Claim, Reach, Store
from strandline.log.claims import ConsumerPlace, host_name, process_exists
from strandline.log.store import StoredTopic
from strandline.values import Partition, Tenant, Topic, UnavailableError


class HolderIdentity(NamedTuple):
    """One holder of leases, as others know it."""

    id: str
    host: str
    pid: int
    started_at_us: int

    @classmethod
    def new(cls, clock: Clock) -> Self:
        """Return one of this process."""
        return cls(clock.new_id().hex, host_name(), os.getpid(), clock.now_us())


class ProofsOfLife:
    """Claims by which processes know at once that a holder has ended, and need not wait.

    A claim ends with its process. Over a network it may also end with a connection, so there
    it counts only for a process of this host that is gone.
    """

    def __init__(
        self, store: Store[StoredTopic], topic: Topic, tenant: Tenant | None, name: str
    ) -> None:
        self._store = store
        self._topic = topic
        self._tenant = tenant
        self._name = name

    def give(self, holder_id: str) -> Claim:
        """Return the proof that this holder lives, for as long as it is referred to."""
        return self._store.claim(self._place(holder_id))

    def has_ended(self, holder_id: str, host: str, pid: int) -> bool:
        """Whether the holder surely lives no more. False if it may."""
        is_far = self._store.capabilities.reach is Reach.NETWORK
        if is_far and (host != host_name() or process_exists(pid)):
            return False
        try:
            self._store.claim(self._place(holder_id)).release()
        except UnavailableError:
            return False
        return True

    def _place(self, holder_id: str) -> ConsumerPlace:
        whose = f"{self._name}/{holder_id}"
        return ConsumerPlace(self._topic, self._tenant, whose, Partition(0))
