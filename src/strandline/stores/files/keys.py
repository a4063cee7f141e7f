"""The keyed area of a topic: a file for each key, replaced whole."""

import contextlib
import os
from collections.abc import Mapping
from hashlib import sha256
from uuid import UUID

import msgspec

from strandline.stores.files import checked
from strandline.stores.files.root import Root, locked
from strandline.stores.files.topics import KEYS, TopicEntry
from strandline.values import CorruptError

KIND = "key"
SUFFIX = ".key"
_LOCK = "lock"


class StoredKey(msgspec.Struct, frozen=True):
    """One key of a topic with its value."""

    topic_id: UUID
    key: str
    value: bytes


class FileKeys:
    """Finds and replaces the keys of any topic. Any thread may use it."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._io = root.io

    def all(self, entry: TopicEntry) -> Mapping[str, bytes]:
        """Return every key with its value."""
        directory = os.path.join(entry.directory, KEYS)
        found = {}
        for name in self._io.list(directory):
            if name.endswith(SUFFIX):
                with contextlib.suppress(FileNotFoundError):
                    stored = self._load(entry, os.path.join(directory, name))
                    found[stored.key] = stored.value
        return found

    def get(self, entry: TopicEntry, key: str) -> bytes | None:
        """Return the value; None if there is none."""
        try:
            return self._load(entry, _path(entry, key)).value
        except FileNotFoundError:
            return None

    def put(self, entry: TopicEntry, key: str, value: bytes | None, expected: bytes | None) -> bool:
        """Replace the value if it is the expected one; say whether."""
        root, path = self._root, _path(entry, key)
        lock = os.path.join(os.path.dirname(path), _LOCK)
        with locked(self._io, root.clock, lock, root.lock_timeout_s):
            if self.get(entry, key) != expected:
                return False
            if value is not None:
                stored = StoredKey(entry.topic.id, key, value)
                checked.store(self._io, path, KIND, stored, unique=str(root.clock.new_id()))
            elif expected is not None:
                self._io.unlink(path)
                self._io.sync_directory(os.path.dirname(path))
            return True

    def _load(self, entry: TopicEntry, path: str) -> StoredKey:
        stored = checked.load(self._io, path, KIND, StoredKey)
        if stored.topic_id != entry.topic.id or path != _path(entry, stored.key):
            raise CorruptError("this key lies in another one's place", file=path, position=0)
        return stored


def _path(entry: TopicEntry, key: str) -> str:
    name = sha256(key.encode()).hexdigest()[:40]
    return os.path.join(entry.directory, KEYS, f"{name}{SUFFIX}")
