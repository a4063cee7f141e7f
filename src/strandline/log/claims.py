"""Claims: one reader at a time for each consumer name and partition."""

import os
import threading
import weakref
from hashlib import sha256
from typing import NamedTuple

from strandline.values import Partition, Tenant, Topic, UnavailableError
from strandline.values.prompt import prompt_text


class ConsumerPlace(NamedTuple):
    """What is claimed: one partition of a topic, for one consumer name."""

    topic: Topic
    tenant: Tenant | None
    consumer: str
    partition: Partition

    def file_name(self) -> str:
        """Return a file name that no other place in the log has."""
        whose = f"{self.topic.id}\0{self.tenant or ''}\0{self.consumer}\0{self.partition}"
        return f"{sha256(whose.encode()).hexdigest()[:40]}.claim"


def host_name() -> str:
    """Return the name of this machine, shown in the error that other claimants get."""
    return os.uname().nodename


def process_exists(pid: int) -> bool:
    """Whether this machine has a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # Another user's.
    return True


def claimed(place: ConsumerPlace, pid: int | None, host: str | None) -> UnavailableError:
    """Return the error for a partition that another claim holds."""
    return UnavailableError(
        "another reader has this name and partition: close it, split the partitions with "
        "partitions=, or choose another name",
        consumer=place.consumer,
        topic=place.topic.name,
        partition=place.partition,
        pid=pid,
        host=host,
    )


class LocalClaim:
    """Implements Claim for a log in one process."""

    def __init__(self, claims: "LocalClaims", place: ConsumerPlace) -> None:
        self._claims = claims
        self._place = place

    def __repr__(self) -> str:
        topic, _, consumer, partition = self._place
        return prompt_text("Claim", f"{topic.name}/{partition}", consumer)

    def release(self) -> None:
        """See Claim."""
        self._claims.give_up(self._place, self)


class LocalClaims:
    """The claims of a log in one process. Thread-safe."""

    def __init__(self) -> None:
        # Reentrant: garbage collection may drop a claim while this thread holds the lock.
        self._lock = threading.RLock()
        self._held: weakref.WeakValueDictionary[ConsumerPlace, LocalClaim] = (
            weakref.WeakValueDictionary()
        )

    def take(self, place: ConsumerPlace) -> LocalClaim:
        """Return a claim, or raise UnavailableError."""
        with self._lock:
            if place in self._held:
                raise claimed(place, os.getpid(), host_name())
            claim = LocalClaim(self, place)
            self._held[place] = claim
            return claim

    def give_up(self, place: ConsumerPlace, claim: LocalClaim) -> None:
        """Release the place, if this claim still has it."""
        with self._lock:
            if self._held.get(place) is claim:
                del self._held[place]

    def close(self) -> None:
        """Release every place."""
        with self._lock:
            self._held.clear()
