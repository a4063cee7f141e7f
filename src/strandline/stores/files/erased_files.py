"""Which files an erasure has still to remove, in the keyed area of their topic."""

from collections.abc import Sequence

import msgspec

from strandline.stores.files.keys import FileKeys
from strandline.stores.files.topics import TopicEntry

_decode = msgspec.json.Decoder(list[str]).decode


class ErasedFiles:
    """The noted files of one partition."""

    def __init__(self, keys: FileKeys, topic: TopicEntry, partition: int) -> None:
        self._keys = keys
        self._topic = topic
        self._key = f"erasing/{partition}"

    def load(self) -> Sequence[str]:
        """Return those that an erasure has noted and not removed."""
        raw = self._keys.get(self._topic, self._key)
        return [] if raw is None else _decode(raw)

    def note(self, names: Sequence[str]) -> None:
        """Note files that are to be removed, besides those noted before; none once they are."""
        raw = self._keys.get(self._topic, self._key)
        if not names:
            self._keys.remove(self._topic, self._key)
            return
        known = [] if raw is None else _decode(raw)
        self._keys.put(self._topic, self._key, msgspec.json.encode(sorted({*known, *names})), raw)
