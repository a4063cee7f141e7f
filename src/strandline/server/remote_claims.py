"""Claims of remote logs, which are valid while their clients renew them."""

import threading
from typing import Any, NamedTuple

from strandline.clock import Clock
from strandline.log import Store
from strandline.log.claims import ConsumerPlace
from strandline.log.results import Claim
from strandline.log.wire import LEASE_S


class _Lease(NamedTuple):
    claim: Claim
    place: ConsumerPlace
    ends_at: float


class RemoteClaims:
    """The claims of remote logs in one store, by the clients' lease names. Thread-safe."""

    def __init__(self, store: Store[Any], clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._leases: dict[str, _Lease] = {}

    def take(self, lease: str, place: ConsumerPlace) -> None:
        """Claim a place; UnavailableError while another client has it. May be repeated."""
        with self._lock:
            self._expire()
            known = self._leases.get(lease)
            if known is None or known.place != place:
                claim = self._store.claim(place)
            else:
                claim = known.claim
            self._leases[lease] = _Lease(claim, place, self._clock.monotonic() + LEASE_S)

    def renew(self, leases: list[str]) -> list[str]:
        """Renew these claims; return those that are no longer valid."""
        with self._lock:
            self._expire()
            ends_at = self._clock.monotonic() + LEASE_S
            for each in leases:
                if each in self._leases:
                    self._leases[each] = self._leases[each]._replace(ends_at=ends_at)
            return [each for each in leases if each not in self._leases]

    def release(self, leases: list[str]) -> None:
        """Release these leases."""
        with self._lock:
            for each in leases:
                known = self._leases.pop(each, None)
                if known is not None:
                    known.claim.release()

    def _expire(self) -> None:
        now = self._clock.monotonic()
        for name, each in tuple(self._leases.items()):
            if each.ends_at < now:
                del self._leases[name]
                each.claim.release()
