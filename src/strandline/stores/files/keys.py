"""The keyed area of a topic: a file for each key, replaced whole.

The topic's own file lists the key files that must exist, so that a missing file is damage,
and not a key that was never set.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from hashlib import sha256
from typing import TypeVar
from uuid import UUID

import msgspec

from strandline.stores.file_errors import missing_key
from strandline.stores.files import checked
from strandline.stores.files.root import Root, locked
from strandline.stores.files.topics import KEYS, FileTopics, TopicEntry
from strandline.values import CorruptError

KIND = "key"
SUFFIX = ".key"
_LOCK = "lock"

AnswerT = TypeVar("AnswerT")


class StoredKey(msgspec.Struct, frozen=True):
    """One key of a topic with its value."""

    topic_id: UUID
    key: str
    value: bytes


class FileKeys:
    """Finds and replaces the keys of any topic. Any thread may use it."""

    def __init__(self, root: Root, topics: FileTopics) -> None:
        self._root = root
        self._io = root.io
        self._topics = topics
        #: Keys known to be listed: a crash may come between writing a key and listing it.
        self._known: set[tuple[UUID, str]] = set()

    def all(self, entry: TopicEntry) -> Mapping[str, bytes]:
        """Return every key with its value; CorruptError if one is damaged or missing."""
        found = {}
        for path in self._paths(entry):
            try:
                stored = self._load(entry, path)
            except FileNotFoundError:
                # Removed meanwhile, unless the topic still lists it.
                self._check_not_listed(entry, path)
            else:
                found[stored.key] = stored.value
        return found

    def get(self, entry: TopicEntry, key: str) -> bytes | None:
        """Return the value; None if there is none, CorruptError if it is damaged or missing."""
        path = _path(entry, key)
        try:
            return self._load(entry, path).value
        except FileNotFoundError:
            self._check_not_listed(entry, path)
            return None

    def put(self, entry: TopicEntry, key: str, value: bytes, expected: bytes | None) -> bool:
        """Replace the value if it is the expected one; return whether it was."""
        with self._changing(entry):
            if self.get(entry, key) != expected:
                return False
            is_durable = self._place(entry, key, value, is_new=expected is None)
        if not is_durable:
            self.sync(entry)
        return True

    def change(
        self,
        entry: TopicEntry,
        key: str,
        change: Callable[[bytes | None], tuple[bytes, AnswerT]],
    ) -> AnswerT:
        """Replace the value with the result of `change`, and return its answer."""
        with self._changing(entry):
            raw = self.get(entry, key)
            value, answer = change(raw)
            is_durable = self._place(entry, key, value, is_new=raw is None)
        if not is_durable:
            self.sync(entry)
        return answer

    def _place(self, entry: TopicEntry, key: str, value: bytes, *, is_new: bool) -> bool:
        """Write the value; False if `sync` must still make it durable.

        The sync is done without the lock, so that processes that change keys share one sync of
        the disk. Another process may see the value before it is durable; whatever that one
        puts into the area next becomes durable after it.
        """
        path = _path(entry, key)
        stored = StoredKey(entry.topic.id, key, value)
        unique = str(self._root.clock.new_id())
        reserve = self._root.reserve
        checked.place(self._io, path, KIND, stored, unique=unique, reserve=reserve)
        known = entry.topic.id, _stem(path)
        if not is_new and known in self._known:
            return False
        # What is listed must exist.
        self.sync(entry)
        self._topics.list_key(entry, _stem(path), is_there=True)
        self._known.add(known)
        return True

    def sync(self, entry: TopicEntry) -> None:
        """Return once every value that any process may have seen is durable."""
        directory = os.path.join(entry.directory, KEYS)
        # Without the directory there is no value, or all of them are missing.
        if self._io.exists(directory):
            self._io.sync_directory(directory)

    def remove(self, entry: TopicEntry, key: str) -> bool:
        """Remove a key, also a damaged or missing one; False if there was none."""
        path = _path(entry, key)
        with self._changing(entry):
            is_listed = _stem(path) in self._listed(entry)
            self._known.discard((entry.topic.id, _stem(path)))
            # In this order: a missing file that is not listed was removed.
            self._topics.list_key(entry, _stem(path), is_there=False)
            if not self._io.exists(path):
                return is_listed
            self._io.unlink(path)
            self._io.sync_directory(os.path.dirname(path))
            return True

    def directory(self, entry: TopicEntry) -> str:
        """Return the directory of key files, made again if missing: the keys in it are listed."""
        found = os.path.join(entry.directory, KEYS)
        if not self._io.exists(found):
            with suppress(FileExistsError):
                self._io.mkdir(found)
            self._io.sync_directory(entry.directory)
        return found

    def _changing(self, entry: TopicEntry) -> AbstractContextManager[None]:
        lock = os.path.join(self.directory(entry), _LOCK)
        return locked(self._io, self._root.clock, lock, self._root.lock_timeout_s)

    def _paths(self, entry: TopicEntry) -> list[str]:
        """Return the files that exist, and those that must exist."""
        directory = os.path.join(entry.directory, KEYS)
        listed = self._listed(entry)
        try:
            names = self._io.list(directory)
        except FileNotFoundError:
            # The same as an empty one: the files that must exist are listed.
            names = []
        stems = {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}
        return [os.path.join(directory, f"{stem}{SUFFIX}") for stem in sorted(stems | listed)]

    def _listed(self, entry: TopicEntry) -> frozenset[str]:
        found = self._topics.fresh(entry)
        return frozenset() if found is None else found.keys

    def _check_not_listed(self, entry: TopicEntry, path: str) -> None:
        if _stem(path) in self._listed(entry):
            raise missing_key(path)

    def _load(self, entry: TopicEntry, path: str) -> StoredKey:
        stored = checked.load(self._io, path, KIND, StoredKey)
        if stored.topic_id != entry.topic.id or path != _path(entry, stored.key):
            raise CorruptError("this key lies in another one's place", file=path, position=0)
        return stored


def _stem(path: str) -> str:
    return os.path.basename(path).removesuffix(SUFFIX)


def _path(entry: TopicEntry, key: str) -> str:
    name = sha256(key.encode()).hexdigest()[:40]
    return os.path.join(entry.directory, KEYS, f"{name}{SUFFIX}")
