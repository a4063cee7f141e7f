"""Staged rows and recorded batches in an object store, for logs without a disk that tasks share.

Objects are written whole, and an intent only if there is none: this conditional write decides
between two processes that commit the same batch. There is no lock. See design 0126.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import msgspec

from strandline.clock import Clock, SystemClock
from strandline.spark.sink.folder import NAME, folder_name
from strandline.spark.sink.place import Body
from strandline.spark.sink.stored_body import decoded, encoded
from strandline.tiering.delta.transaction_log import CommitStore

_STAGED: Final = re.compile(r"batch-\d+-([0-9a-f-]{36})\.arrow")
#: The first 48 bits of a UUIDv7 are milliseconds.
_TIME_SHIFT: Final = 80


class _AppName(msgspec.Struct, frozen=True):
    app: str
    made_at_us: int


class ObjectFolder:
    """Implements StagingFolder below `root` in an object store."""

    is_exclusive: Final = False

    def __init__(
        self, store: CommitStore, root: str, app: str, *, clock: Clock | None = None
    ) -> None:
        self.app = app
        self.clock: Clock = clock or SystemClock()
        self._store = store
        self._prefix = f"{root}/{folder_name(app)}"
        #: The object that was read last: its blocks are read one after the other.
        self._kept: tuple[str, bytes] | None = None

    def make(self) -> None:
        """Store the id of the app, if nothing is stored."""
        if not self.exists():
            self.store_new(NAME, _AppName(self.app, self.clock.now_us()))

    def exists(self) -> bool:
        """Whether anything was ever staged here."""
        return self._store.get(self._name(NAME)) is not None

    def path_of(self, name: str) -> str:
        """Return the URL of an object."""
        return f"{self._store.url.rstrip('/')}/{self._name(name)}"

    def path_for_store(self, name: str) -> None:
        """Return None: the log's store does not read objects."""

    def names(self) -> Sequence[str]:
        """Return the names of all objects."""
        return [each.rpartition("/")[2] for each in self._store.list(self._prefix)]

    @contextlib.contextmanager
    def locked(self, timeout_s: float = 0.0) -> Iterator[None]:  # noqa: ARG002 # Nothing waits.
        """Lock nothing: each step has the same result if several processes do it at once."""
        yield

    def new_file(self, name: str) -> "_NewObject":
        """Return an object to be filled."""
        self.make()
        return _NewObject(self, name)

    def store(self, name: str, body: msgspec.Struct) -> None:
        """Replace an object by `body`."""
        self.put(name, encoded(body))

    def store_new(self, name: str, body: msgspec.Struct) -> bool:
        """As `store`, unless there is such an object; False then."""
        return self._store.put_new(self._name(name), encoded(body))

    def load(self, name: str, shape: type[Body]) -> Body | None:
        """Return what was stored; None if nothing was, CorruptError if it is damaged."""
        stored = self._store.get(self._name(name))
        return None if stored is None else decoded(stored, shape, self.path_of(name))

    def put(self, name: str, content: bytes) -> None:
        """Write an object."""
        self._store.put(self._name(name), content)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a part of an object, or all of it."""
        if self._kept is None or self._kept[0] != name:
            found = self._store.get(self._name(name))
            if found is None:
                raise FileNotFoundError(self.path_of(name))
            self._kept = name, found
        content = self._kept[1]
        return content[offset : len(content) if length is None else offset + length]

    def read_last(self, name: str, offset: int, length: int) -> bytes:
        """As `read`."""
        return self.read(name, offset, length)

    def extend(self, name: str, before: bytes, added: bytes) -> None:
        """Replace the object by `before` and then `added`."""
        self.put(name, before + added)

    def age_s(self, name: str) -> float:
        """Return how long ago an object was created; 0 if that is unknown."""
        now_s = self.clock.now_us() / 1e6
        staged = _STAGED.fullmatch(name)
        if staged is not None:
            return now_s - (UUID(staged[1]).int >> _TIME_SHIFT) / 1e3
        made = self.load(NAME, _AppName) if name == NAME else None
        return 0.0 if made is None else now_s - made.made_at_us / 1e6

    def remove(self, name: str) -> None:
        """Remove an object, if it is still there."""
        self._store.delete(self._name(name))

    def remove_all(self) -> None:
        """Remove everything; last the object with the app's id, by which the rest is found."""
        for name in self.names():
            if name != NAME:
                self.remove(name)
        self.remove(NAME)

    def _name(self, name: str) -> str:
        return f"{self._prefix}/{name}"


class _NewObject:
    """Implements StagedFile: buffered in memory, and written as a whole."""

    def __init__(self, folder: ObjectFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._parts: list[memoryview] = []

    def write(self, content: memoryview) -> None:
        self._parts.append(content)

    def finish(self) -> None:
        self._folder.put(self._name, b"".join(self._parts))
        self._parts.clear()

    def discard(self) -> None:
        self._folder.remove(self._name)


def object_folders(
    store: CommitStore, root: str, *, clock: Clock | None = None
) -> Iterator[ObjectFolder]:
    """Yield the folder of each app that has one below `root`."""
    for each in store.list(root):
        if each.endswith(f"/{NAME}"):
            stored = store.get(each)
            if stored is not None:  # None if it was removed since.
                app = decoded(stored, _AppName, each).app
                yield ObjectFolder(store, root, app, clock=clock)
