"""How changes of partitions that are files are found."""

import contextlib
from collections.abc import Callable, Collection
from typing import Final, Generic

from strandline.io import FileWatcher
from strandline.log.watches import Place


class FileChanges(Generic[Place]):
    """Implements ChangeSource for partitions of which a file changes with each append.

    `path_of` names that file, or the directory it is in: the file is cheaper where
    other files in there change, too.
    """

    is_for_readers = True

    def __init__(self, file_watcher: FileWatcher, path_of: Callable[[Place], str]) -> None:
        self._file_watcher = file_watcher
        self._path_of = path_of
        # Replaced and never changed: the thread that waits reads them without a lock.
        self._places: dict[str, frozenset[Place]] = {}
        self.found: Final = file_watcher.found
        self.wake: Final = file_watcher.wake
        self.close: Final = file_watcher.close

    def add(self, place: Place, /) -> None:
        path = self._path_of(place)
        self._places[path] = self._places.get(path, frozenset()) | {place}
        # A path that is gone or not what it should be is reported by the next look.
        with contextlib.suppress(OSError):
            self._file_watcher.add(path)

    def remove(self, place: Place, /) -> None:
        path = self._path_of(place)
        rest = self._places.get(path, frozenset()) - {place}
        if rest:
            self._places[path] = rest
        else:
            self._file_watcher.remove(path)
            self._places.pop(path, None)

    def wait(self, timeout_s: float | None = None, /) -> Collection[Place]:
        changed = self._file_watcher.wait(timeout_s)
        if len(changed) == 1:
            (path,) = changed
            return self._places.get(path, frozenset())
        return [place for path in changed for place in self._places.get(path, ())]
