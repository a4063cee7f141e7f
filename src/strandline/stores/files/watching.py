"""Hints of appends by any process: a watch on the partition's directory."""

import contextlib
from collections.abc import Callable, Collection
from typing import Any, Final, Generic, NamedTuple

from strandline.clock import Clock, SystemClock
from strandline.io import FileWatcher
from strandline.log.watches import ChangeSource, Place, Watches
from strandline.stores.file_errors import translated, unavailable
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.root import Root
from strandline.stores.files.topics import TopicEntry
from strandline.values import DroppedError

#: How long after a write of the tail a writer only stores ends in shared memory: lane_tail.c.
TOUCH_S = 0.0002

# Calling a named tuple's class is slow, and each append makes one.
_new: Any = tuple.__new__


class WatchedPlace(NamedTuple):
    """A partition, and which of its marks is watched."""

    files: PartitionFiles
    durable_only: bool


class FileWatches(Watches[WatchedPlace, TopicEntry]):
    """The watches of a log; implements MarkListener.

    Segments are in another directory: only changes of the tail are noticed.
    """

    def __init__(self, root: Root) -> None:
        super().__init__(root.clock, _place, _end, self._file_changes)
        self._root = root

    def __call__(self, files: PartitionFiles, end: int, *, durable_only: bool) -> None:
        """Notify of how far a partition is written, or durable."""
        self.notify(_new(WatchedPlace, (files, durable_only)), end)

    def notify_topic_dropped(self, entry: TopicEntry) -> None:
        """Notify that a topic was dropped."""
        self.notify_dropped(
            [WatchedPlace(files, only) for files in entry.partitions for only in (False, True)]
        )

    @translated
    def _file_changes(self) -> ChangeSource[WatchedPlace]:
        changes = FileChanges(self._root.io.file_watcher(), _path)
        # Processes share the memory of a tail only with the system's clock.
        is_system = isinstance(self._root.clock, SystemClock)
        return TailChanges(changes, self._root.clock) if is_system else changes


class TailChanges:
    """Implements ChangeSource: reports a change, and the same partition again a little later.

    A process with a tail in shared memory writes it once in a way that watchers notice, and for
    the next TOUCH_S only stores ends in memory, which no watcher notices. A later look sees
    those; an end stored after that time is written visibly again. See design 0120.
    """

    is_for_readers = True

    def __init__(self, changes: ChangeSource[WatchedPlace], clock: Clock) -> None:
        self._changes = changes
        self._monotonic = clock.monotonic
        self._places: set[WatchedPlace] = set()
        #: When to look again, in the order of time: the delay is the same for all.
        self._due: dict[WatchedPlace, float] = {}
        #: Whether a wait was interrupted, and lost its notifications.
        self._is_behind = False
        self.found: Final = changes.found
        self.wake: Final = changes.wake
        self.close: Final = changes.close

    def add(self, place: WatchedPlace, /) -> None:
        """See ChangeSource."""
        self._places.add(place)
        self._changes.add(place)

    def remove(self, place: WatchedPlace, /) -> None:
        """See ChangeSource."""
        self._places.discard(place)
        self._due.pop(place, None)
        self._changes.remove(place)

    def wait(self, timeout_s: float | None = None, /) -> Collection[WatchedPlace]:
        """See ChangeSource."""
        if self._is_behind:
            self._look_again(tuple(self._places))
        self._is_behind = True
        due_at = next(iter(tuple(self._due.values())), None)
        if due_at is not None:
            rest_s = max(0.0, due_at - self._monotonic())
            timeout_s = rest_s if timeout_s is None else min(timeout_s, rest_s)
        noticed = self._changes.wait(timeout_s)
        now = self._monotonic()
        late = [place for place, at in tuple(self._due.items()) if at <= now]
        for place in late:
            self._due.pop(place, None)
        self._look_again(noticed)
        self._is_behind = False
        return {*noticed, *late} if late else noticed

    def _look_again(self, places: Collection[WatchedPlace]) -> None:
        at = self._monotonic() + TOUCH_S
        for place in places:
            # Again after the last notification: this look sees all ends before it.
            self._due.pop(place, None)
            self._due[place] = at


def _place(topic: TopicEntry, partition: int, durable_only: bool) -> WatchedPlace:
    return WatchedPlace(topic.partitions[partition], durable_only)


def _end(place: WatchedPlace) -> int | None:
    try:
        state = place.files.look()
        if state is None:
            return None if place.files.place.is_dropped() else 0
    except DroppedError:
        return None
    except OSError as error:
        raise unavailable(error, place.files.place.directory) from error
    marks = state.marks
    return marks.durable if place.durable_only else marks.high


def _path(place: WatchedPlace) -> str:
    return place.files.place.directory


class FileChanges(Generic[Place]):
    """Implements ChangeSource for partitions with a file that changes at each append.

    `path_of` names that file, or its directory: naming the file is cheaper if other files in
    the directory change, too.
    """

    is_for_readers = True

    def __init__(self, file_watcher: FileWatcher, path_of: Callable[[Place], str]) -> None:
        self._file_watcher = file_watcher
        self._path_of = path_of
        # Replaced, never mutated: the waiting thread reads them without a lock.
        self._places: dict[str, frozenset[Place]] = {}
        self.found: Final = file_watcher.found
        self.wake: Final = file_watcher.wake
        self.close: Final = file_watcher.close

    def add(self, place: Place, /) -> None:
        path = self._path_of(place)
        self._places[path] = self._places.get(path, frozenset()) | {place}
        # If the path is missing or wrong, the next look reports it.
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
