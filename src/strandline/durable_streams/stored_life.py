"""The mutable state of a stream besides its messages, in the keyed area of its topic."""

from typing import Any, Final

import msgspec

from strandline.clock import Clock
from strandline.log import Log, parts_of
from strandline.log.store import StoredTopic
from strandline.values import Mode, Topic

_LIFE_KEY: Final = "stream/life"
_WRITERS_KEY: Final = "stream/writers"
_FORKS_START: Final = "stream/forks/"
_LOOK_US: Final = 1_000_000
_SLACK: Final = 8


class StoredLife(msgspec.Struct, frozen=True, omit_defaults=True):
    """The expiry of a stream."""

    idle_until_us: int | None = None
    is_deleted: bool = False
    """Whether it is deleted, and kept only for its forks."""


class StreamKeys:
    """The keyed area of one stream."""

    def __init__(self, log: Log, topic: Topic) -> None:
        parts = parts_of(log)
        self._store: Any = parts.store
        self._topic = topic
        self._is_writable = log.mode is Mode.WRITE

    def life(self) -> StoredLife:
        """Return the stored expiry of the stream."""
        found = self._stored()
        raw = None if found is None else self._store.get_key(found, _LIFE_KEY)
        return StoredLife() if raw is None else msgspec.json.decode(raw, type=StoredLife)

    def put_life(self, **changes: Any) -> StoredLife:
        """Change the expiry of the stream; durable when it returns."""
        while True:
            found = self._stored()
            if found is None:
                return StoredLife(is_deleted=True)
            raw = self._store.get_key(found, _LIFE_KEY)
            before = StoredLife() if raw is None else msgspec.json.decode(raw, type=StoredLife)
            after = msgspec.structs.replace(before, **changes)
            if not self._is_writable or after == before:
                return after
            if self._store.put_key(found, _LIFE_KEY, msgspec.json.encode(after), raw):
                return after

    def writers(self) -> bytes | None:
        """Return the stored state of the stream's writers."""
        found = self._stored()
        return None if found is None else self._store.get_key(found, _WRITERS_KEY)

    def put_writers(self, value: bytes) -> None:
        """Store the state of the writers; another process may do so instead."""
        found = self._stored()
        if found is not None and self._is_writable:
            self._store.put_key(
                found, _WRITERS_KEY, value, self._store.get_key(found, _WRITERS_KEY)
            )

    def forks(self) -> list[str]:
        """Return the names of the topics that are, or were about to become, forks of the stream."""
        found = self._stored()
        keys = {} if found is None else self._store.keys(found)
        return [each[len(_FORKS_START) :] for each in keys if each.startswith(_FORKS_START)]

    def add_fork(self, name: str) -> None:
        """Store the name of a fork that is about to be made."""
        found = self._stored()
        if found is not None:
            key = _FORKS_START + name
            self._store.put_key(found, key, b"{}", self._store.get_key(found, key))

    def remove_fork(self, name: str) -> None:
        """Remove the name of a fork."""
        found = self._stored()
        if found is not None:
            self._store.remove_key(found, _FORKS_START + name)

    def _stored(self) -> StoredTopic | None:
        found: StoredTopic | None = self._store.find_topic_id(self._topic.id)
        return found


class Lifetime:
    """Whether a stream has expired, or was deleted. For one thread at a time."""

    def __init__(
        self,
        keys: StreamKeys,
        clock: Clock,
        created_at_us: int,
        ttl_s: int | None,
        end_us: int | None,
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._ttl_us = None if ttl_s is None else ttl_s * 1_000_000
        self._end_us = end_us
        self._stored = StoredLife()
        self._looked_us = clock.now_us()
        self._idle_until_us = created_at_us + (self._ttl_us or 0)
        self._take(keys.life())

    @property
    def is_deleted(self) -> bool:
        """Whether it is deleted, and kept only for its forks."""
        return self._look().is_deleted

    def has_ended(self) -> bool:
        """Whether it has expired."""
        now_us = self._clock.now_us()
        if self._end_us is not None and now_us >= self._end_us:
            return True
        if self._ttl_us is None or now_us < self._idle_until_us:
            return False
        # Another server may have used it.
        self._take(self._keys.life())
        return now_us >= self._idle_until_us

    def touch(self) -> None:
        """Extend its expiry, because it is used now.

        A somewhat later time is stored, so that not every use has to be stored: after a
        restart a stream expires up to an eighth later, and never earlier.
        """
        if self._ttl_us is None:
            return
        self._idle_until_us = self._clock.now_us() + self._ttl_us
        if self._idle_until_us > (self._stored.idle_until_us or 0):
            later_us = self._idle_until_us + self._ttl_us // _SLACK
            self._stored = self._keys.put_life(idle_until_us=later_us)

    def delete(self) -> None:
        """Mark it as deleted, and keep it for its forks."""
        self._stored = self._keys.put_life(is_deleted=True)

    def _look(self) -> StoredLife:
        now_us = self._clock.now_us()
        if not 0 <= now_us - self._looked_us < _LOOK_US:
            self._looked_us = now_us
            self._stored = self._keys.life()
        return self._stored

    def _take(self, stored: StoredLife) -> None:
        # The time that this server has stored is later than the one that it has read.
        if stored.idle_until_us is not None and stored != self._stored:
            self._idle_until_us = max(self._idle_until_us, stored.idle_until_us)
        self._stored = stored
