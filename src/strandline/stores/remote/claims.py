"""Claims that a server holds for this process, renewed while it lives."""

import contextlib
import threading
import weakref
from typing import Final

from strandline.locks import start_thread
from strandline.log import wire
from strandline.log.claims import ConsumerPlace
from strandline.stores.remote.connection import RemoteConnection
from strandline.values import StrandlineError

_RENEW_S: Final = wire.LEASE_S / 4


class RemoteClaim:
    """Implements Claim."""

    def __init__(self, claims: "RemoteLeases", lease: str) -> None:
        self._end = weakref.finalize(self, claims.release, lease)

    def release(self) -> None:
        """See Claim."""
        self._end()


class RemoteLeases:
    """The claims of one open log. Thread-safe."""

    def __init__(self, connection: RemoteConnection) -> None:
        self._connection = connection
        # Reentrant: garbage collection may release a claim while the lock is held.
        self._lock = threading.RLock()
        self._held: dict[str, wire.ClaimCall] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, place: ConsumerPlace) -> RemoteClaim:
        """Return a claim; UnavailableError if another one holds it."""
        lease = str(self._connection.clock.new_id())
        call = wire.ClaimCall(lease, place.topic.id, place.tenant, place.consumer, place.partition)
        self._connection.call("claim", call, wire.DoneReturn)
        with self._lock:
            self._held[lease] = call
            self._start_renewing()
        return RemoteClaim(self, lease)

    def release(self, lease: str) -> None:
        """Release it."""
        with self._lock:
            if self._held.pop(lease, None) is None or self._connection.state.is_inherited:
                return
        with contextlib.suppress(StrandlineError):
            self._connection.call("release-claims", wire.LeasesCall([lease]), wire.DoneReturn)

    def close(self) -> None:
        """Release every claim."""
        with self._lock:
            leases = list(self._held)
            self._held.clear()
        self._ended.set()
        if leases:
            with contextlib.suppress(StrandlineError):
                self._connection.call("release-claims", wire.LeasesCall(leases), wire.DoneReturn)

    def _start_renewing(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._renew, name="strandline-claims", daemon=True
            )
            start_thread(self._thread)

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_S):
            with self._lock:
                held = dict(self._held)
            # If the server does not answer, the next round tries again; a restarted one knows none.
            with contextlib.suppress(StrandlineError):
                if held:
                    self._take_again(held)

    def _take_again(self, held: dict[str, wire.ClaimCall]) -> None:
        call = wire.LeasesCall(list(held))
        answer = self._connection.call("renew-claims", call, wire.LeasesReturn)
        for lease in answer.unknown:
            with self._lock:
                is_held = lease in self._held
            if is_held:
                with contextlib.suppress(StrandlineError):
                    self._connection.call("claim", held[lease], wire.DoneReturn)
