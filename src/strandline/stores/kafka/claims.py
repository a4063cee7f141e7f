"""Claims as keyed values with a lease, which their holder renews; the broker's clock counts."""

import contextlib
import os
import threading
import weakref
from collections import deque
from typing import Final

import msgspec

from strandline.locks import start_thread
from strandline.log.claims import ConsumerPlace, claimed, host_name
from strandline.stores.kafka.changes import KeyCondition, KeyPut
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.keyed import KeyedLog
from strandline.values import StrandlineError

#: How long a killed process's claim lasts.
LEASE_S: Final = 10
#: How often collected claims are looked for, and after how many such looks all are renewed.
_LOOK_S: Final = 0.5
_RENEW_AFTER: Final = 5


class KafkaClaim:
    """Implements Claim."""

    def __init__(self, claims: "KafkaClaims", key: str) -> None:
        self._claims = claims
        self._key = key
        # It may be garbage-collected on any thread, even one that a release would wait for.
        self._end = weakref.finalize(self, claims.abandoned.append, key)

    def release(self) -> None:
        """See Claim."""
        if self._end.detach():
            self._claims.release(self._key)


class KafkaClaims:
    """The claims of one open log. Thread-safe."""

    def __init__(self, clients: KafkaClients, keyed: KeyedLog) -> None:
        self._clients = clients
        self._keyed = keyed
        self._value = msgspec.msgpack.encode((os.getpid(), host_name()))
        # Reentrant: garbage collection may release a claim while the lock is held.
        self._lock = threading.RLock()
        #: The version of each claim of this process.
        self._held: dict[str, int] = {}
        #: Claims that were garbage-collected and must be released.
        self.abandoned: deque[str] = deque()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def take(self, place: ConsumerPlace) -> KafkaClaim:
        """Return a claim; UnavailableError if another one holds it."""
        key = f"c.{place.file_name().partition('.')[0]}"
        self._release_abandoned()
        self._keyed.catch_up()
        version = None if key in self._held else self._put(key, is_over=True)
        if version is None:
            raise claimed(place, *self._holder(key))
        with self._lock:
            self._held[key] = version
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._keep_renewing, name="strandline-claims", daemon=True
                )
                start_thread(self._thread)
        return KafkaClaim(self, key)

    def release(self, key: str) -> None:
        """Release it."""
        if self._clients.state.is_inherited:
            return
        with self._lock:
            version = self._held.pop(key, None)
        if version is not None:
            with contextlib.suppress(StrandlineError):
                self._keyed.change([KeyCondition(key, version)], [KeyPut(key, None)])

    def close(self) -> None:
        """Release every claim."""
        self._ended.set()
        for key in tuple(self._held):
            self.release(key)

    def _release_abandoned(self) -> None:
        while self.abandoned:
            self.release(self.abandoned.popleft())

    def _put(self, key: str, *, is_over: bool, version: int | None = None) -> int | None:
        expected = self._keyed.get(key).version if version is None else version
        condition = KeyCondition(key, expected, is_over and expected > 0)
        return self._keyed.change([condition], [KeyPut(key, self._value, LEASE_S * 1000)])

    def _holder(self, key: str) -> tuple[int | None, str | None]:
        value = self._keyed.get(key).value
        if value is None:
            return None, None
        try:
            return msgspec.msgpack.decode(value, type=tuple[int, str])
        except (msgspec.DecodeError, msgspec.ValidationError):
            return None, None

    def _keep_renewing(self) -> None:
        rounds = 0
        while not self._ended.wait(_LOOK_S):
            self._release_abandoned()
            rounds += 1
            if rounds % _RENEW_AFTER:
                continue
            for key, version in tuple(self._held.items()):
                # If the brokers do not answer, the next round tries again.
                with contextlib.suppress(StrandlineError):
                    self._renew(key, version)

    def _renew(self, key: str, version: int) -> None:
        renewed = self._put(key, is_over=False, version=version)
        if renewed is None:
            # It expired for a while, or an answer was lost; another process may hold it now.
            renewed = self._put(key, is_over=True)
        if renewed is None:
            return
        with self._lock:
            if key in self._held:
                self._held[key] = renewed
                return
        # It was released meanwhile.
        with contextlib.suppress(StrandlineError):
            self._keyed.change([KeyCondition(key, renewed)], [KeyPut(key, None)])
