"""The interface of the place where rows are staged and batches recorded.

Two implementations: `AppFolder` in a directory that every task sees, `ObjectFolder` in an
object store. See designs 0051 and 0126.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import msgspec

from strandline.clock import Clock

Body = TypeVar("Body", bound=msgspec.Struct)


class StagedFile(Protocol):
    """A file that one task fills."""

    def write(self, content: memoryview) -> None:
        """Add to its end."""

    def finish(self) -> None:
        """Make it durable under its name; nothing is written to it after that."""

    def discard(self) -> None:
        """Remove the file, finished or not."""


class StagingFolder(Protocol):
    """What was staged and recorded under one app's id. Any number of processes use it."""

    @property
    def app(self) -> str:
        """The id."""

    @property
    def clock(self) -> Clock:
        """The source of times and fresh ids."""

    @property
    def is_exclusive(self) -> bool:
        """Whether no other process can be inside `locked` at the same time."""

    def make(self) -> None:
        """Create it, durably, if it is missing."""

    def exists(self) -> bool:
        """Whether anything was ever staged here."""

    def path_of(self, name: str) -> str:
        """Return where a file of this name is, for messages."""

    def path_for_store(self, name: str) -> str | None:
        """Return where the log's own store finds a file; None if it does not."""

    def names(self) -> Sequence[str]:
        """Return the names of all files."""

    def locked(self, timeout_s: float = ...) -> AbstractContextManager[None]:
        """Hold the lock to record, roll forward or sweep; UnavailableError after a while."""

    def new_file(self, name: str) -> StagedFile:
        """Return a file to be filled."""

    def store(self, name: str, body: msgspec.Struct) -> None:
        """Replace a file by `body`, durably and atomically."""

    def store_new(self, name: str, body: msgspec.Struct) -> bool:
        """As `store`, unless there is such a file; False then."""

    def load(self, name: str, shape: type[Body]) -> Body | None:
        """Return what was stored; None if nothing was, CorruptError if it is damaged."""

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a part of a file, or all of it; FileNotFoundError if there is none."""

    def read_last(self, name: str, offset: int, length: int) -> bytes:
        """As `read`, for a part of a finished file that will hardly be read again."""

    def extend(self, name: str, before: bytes, added: bytes) -> None:
        """Append `added`, durably, to a file whose content is `before`."""

    def age_s(self, name: str) -> float:
        """Return how long ago the file was last changed; 0 if there is none."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there."""

    def remove_all(self) -> None:
        """Remove everything of an app whose id is not used again. The lock is held."""
