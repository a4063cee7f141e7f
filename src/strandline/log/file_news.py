"""News of partitions that are files."""

import contextlib
from collections.abc import Callable, Collection
from typing import Generic

from strandline.io import Lookout
from strandline.log.watches import Place


class FileNews(Generic[Place]):
    """Implements News for partitions of which a file changes with each append.

    `path_of` names that file, or the directory it is in: the file is cheaper where
    other files in there change, too.
    """

    is_for_readers = True

    def __init__(self, lookout: Lookout, path_of: Callable[[Place], str]) -> None:
        self._lookout = lookout
        self._path_of = path_of
        # Replaced and never changed: the thread that waits reads them without a lock.
        self._places: dict[str, frozenset[Place]] = {}
        self.found = lookout.found
        self.wake = lookout.wake
        self.close = lookout.close

    def add(self, place: Place, /) -> None:
        path = self._path_of(place)
        self._places[path] = self._places.get(path, frozenset()) | {place}
        # A path that is gone or not what it should be is found so by whoever looks.
        with contextlib.suppress(OSError):
            self._lookout.add(path)

    def remove(self, place: Place, /) -> None:
        path = self._path_of(place)
        rest = self._places.get(path, frozenset()) - {place}
        if rest:
            self._places[path] = rest
        else:
            self._lookout.remove(path)
            self._places.pop(path, None)

    def wait(self, timeout_s: float | None = None, /) -> Collection[Place]:
        changed = self._lookout.wait(timeout_s)
        if len(changed) == 1:
            (path,) = changed
            return self._places.get(path, frozenset())
        return [place for path in changed for place in self._places.get(path, ())]
