"""One value of a topic's keyed area, read and replaced by compare-and-set."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from strandline.log import Log, parts_of
from strandline.log.parts import check_may_consume
from strandline.log.store import StoredTopic, dropped
from strandline.values import Topic

ValueT = TypeVar("ValueT")


class KeyedValue(Generic[ValueT]):
    """Reads and changes the value. Any thread may use it."""

    def __init__(
        self,
        log: Log,
        topic: Topic,
        key: str,
        *,
        decode: Callable[[bytes | None], ValueT],
        encode: Callable[[ValueT], bytes],
    ) -> None:
        check_may_consume(log)
        self._store = parts_of(log).store
        self._topic = topic
        self._key = key
        self._decode = decode
        self._encode = encode
        self._stored: Any = None

    def get(self) -> ValueT:
        """Return the current value."""
        return self._decode(self._store.get_key(self._found(), self._key))

    def change(self, changed: Callable[[ValueT], ValueT]) -> ValueT:
        """Replace the value with the result of `changed`, durably; return the new value.

        `changed` is called again if another process was first. If it raises, nothing changes;
        if it returns the value unchanged, nothing is stored.
        """
        topic = self._found()
        while True:
            raw = self._store.get_key(topic, self._key)
            value = self._decode(raw)
            wanted = changed(value)
            if wanted is value or wanted == value:
                return value
            if self._store.put_key(topic, self._key, self._encode(wanted), raw):
                return wanted

    def _found(self) -> StoredTopic:
        if self._stored is None:
            self._stored = self._store.find_topic_id(self._topic.id)
        if self._stored is None:
            raise dropped(self._topic)
        return self._stored  # type: ignore[no-any-return]
