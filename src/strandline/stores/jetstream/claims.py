"""Claims as values that expire on the server, renewed while their holder lives."""

import contextlib
import os
import threading
import weakref
from concurrent.futures import Future, wait
from typing import Final

import msgspec

from strandline.locks import start_thread
from strandline.log.claims import ConsumerPlace, claimed, host_name
from strandline.stores.jetstream.connection import NatsConnection
from strandline.stores.jetstream.errors import ApiRefusedError
from strandline.stores.jetstream.keyed import KeyedStream
from strandline.stores.jetstream.streams import LogNames
from strandline.values import StrandlineError

#: How long a killed process's claim lasts.
LEASE_S: Final = 10
_RENEW_S: Final = LEASE_S / 4


class ClaimHolder(msgspec.Struct, array_like=True, frozen=True):
    """The holder of a claim."""

    pid: int
    host: str


class JetStreamClaim:
    """Implements Claim."""

    def __init__(self, claims: "JetStreamClaims", subject: str) -> None:
        self._claims = claims
        self._subject = subject
        # It may be collected on the connection's own thread, which must not wait for itself.
        self._end = weakref.finalize(self, claims.release_soon, subject)

    def release(self) -> None:
        """See Claim."""
        if self._end.detach():
            self._claims.release(self._subject)


class JetStreamClaims:
    """The claims of one open log. Thread-safe."""

    def __init__(self, connection: NatsConnection, keyed: KeyedStream, names: LogNames) -> None:
        self._connection = connection
        self._keyed = keyed
        self._names = names
        self._value = msgspec.msgpack.encode(ClaimHolder(os.getpid(), host_name()))
        # Reentrant: garbage collection may release a claim while the lock is held.
        self._lock = threading.RLock()
        self._held: dict[str, int] = {}
        self._ending: set[Future[int]] = set()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, place: ConsumerPlace) -> JetStreamClaim:
        """Return a claim; UnavailableError if another one holds it."""
        subject = self._names.keyed("c", place.file_name().partition(".")[0])
        with self._lock:
            is_held = subject in self._held
            ending = tuple(self._ending)
        wait(ending)
        sequence = None if is_held else self._run_put(subject, 0)
        if sequence is None:
            raise claimed(place, *self._holder(subject))
        with self._lock:
            self._held[subject] = sequence
            self._begin_renewing()
        return JetStreamClaim(self, subject)

    def release(self, subject: str) -> None:
        """Release it."""
        sequence = self._forget(subject)
        if sequence is not None:
            with contextlib.suppress(StrandlineError):
                self._connection.run(self._keyed.remove(subject, sequence + 1))

    def release_soon(self, subject: str) -> None:
        """Release it, without waiting for the server."""
        sequence = self._forget(subject)
        if sequence is not None:
            with contextlib.suppress(StrandlineError):
                ending = self._connection.start(self._keyed.remove(subject, sequence + 1))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

    def _forget(self, subject: str) -> int | None:
        if self._connection.state.is_inherited:
            return None
        with self._lock:
            return self._held.pop(subject, None)

    def _run_put(self, subject: str, expected: int) -> int | None:
        return self._connection.run(self._keyed.put(subject, self._value, expected, ttl_s=LEASE_S))

    def close(self) -> None:
        """Release every claim."""
        self._ended.set()
        for subject in tuple(self._held):
            self.release(subject)

    def _holder(self, subject: str) -> tuple[int | None, str | None]:
        found = self._connection.run(self._keyed.get(subject))
        if found is None:
            return None, None
        try:
            holder = msgspec.msgpack.decode(found.value, type=ClaimHolder)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return None, None
        return holder.pid, holder.host

    # --- renewing ---

    def _begin_renewing(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._keep_renewing, name="strandline-claims", daemon=True
            )
            start_thread(self._thread)

    def _keep_renewing(self) -> None:
        while not self._ended.wait(_RENEW_S):
            for subject in tuple(self._held):
                # If a server does not answer, the next round tries again.
                with contextlib.suppress(StrandlineError, ApiRefusedError):
                    self._renew(subject)

    def _renew(self, subject: str) -> None:
        with self._lock:
            sequence = self._held.get(subject)
        if sequence is None:
            return
        renewed = self._run_put(subject, sequence)
        if renewed is None:
            # It expired while the server was unavailable; another process may hold it now.
            renewed = self._run_put(subject, 0)
        if renewed is None:
            return
        with self._lock:
            is_held = subject in self._held
            if is_held:
                self._held[subject] = renewed
        if not is_held:
            # It was released meanwhile.
            self._connection.run(self._keyed.remove(subject, renewed + 1))
