"""Identifies a lease holder, and proves its end where the store can."""

import os
from typing import NamedTuple, Self

from strandline.clock import Clock
from strandline.log import Claim, Reach, Store
from strandline.log.claims import ConsumerPlace, host_name, process_exists
from strandline.log.store import StoredTopic
from strandline.values import Partition, Tenant, Topic, UnavailableError


class HolderIdentity(NamedTuple):
    """A lease holder's identity, as other processes see it."""

    id: str
    host: str
    pid: int
    started_at_us: int

    @classmethod
    def new(cls, clock: Clock) -> Self:
        """Return a new identity in this process."""
        return cls(clock.new_id().hex, host_name(), os.getpid(), clock.now_us())


class ProofsOfLife:
    """Claims that show at once whether a holder has ended, without waiting for its lease.

    A claim ends with its process. Over a network it may also end with a connection; there it
    counts only if the holder was a process of this host and is gone.
    """

    def __init__(
        self, store: Store[StoredTopic], topic: Topic, tenant: Tenant | None, name: str
    ) -> None:
        self._store = store
        self._topic = topic
        self._tenant = tenant
        self._name = name

    def give(self, holder_id: str) -> Claim:
        """Return a claim that proves that this holder is alive, as long as it is referenced."""
        return self._store.claim(self._place(holder_id))

    def has_ended(self, holder_id: str, host: str, pid: int) -> bool:
        """Whether the holder has certainly ended; False if it may be alive."""
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
