"""Decides which open record of a key is first; no I/O."""

from bisect import insort


class KeyOrder:
    """The open records of each key and partition; only the first may be delivered."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[int, str], list[int]] = {}
        self._keys: dict[int, dict[int, str]] = {}

    def enter(self, partition: int, key: str, offset: int) -> bool:
        """Add an open record; return whether it is the first of its key."""
        known = self._keys.setdefault(partition, {})
        if offset not in known:
            known[offset] = key
            insort(self._offsets.setdefault((partition, key), []), offset)
        return self._offsets[partition, key][0] == offset

    def leave(self, partition: int, offset: int) -> int | None:
        """Remove a settled record; if it was the first of its key, return the next."""
        key = self._keys.get(partition, {}).pop(offset, None)
        if key is None:
            return None
        offsets = self._offsets[partition, key]
        was_first = offsets[0] == offset
        offsets.remove(offset)
        if not offsets:
            del self._offsets[partition, key]
            return None
        return offsets[0] if was_first else None

    def drop(self, partition: int) -> None:
        """Remove a partition."""
        for key in set(self._keys.pop(partition, {}).values()):
            self._offsets.pop((partition, key), None)
