"""Hints of what any process appends: a change of the partition's directory."""

from collections.abc import Collection
from typing import Any, NamedTuple

from strandline.log.file_changes import FileChanges
from strandline.log.store import DroppedError
from strandline.log.watches import Watches
from strandline.stores.file_errors import translated, unavailable
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.root import Root
from strandline.stores.files.topics import TopicEntry

# What makes a named tuple by name is slow, and one is made for each append.
_new: Any = tuple.__new__


class WatchedPlace(NamedTuple):
    """A partition, and which of its ends is watched."""

    files: PartitionFiles
    durable_only: bool


class FileWatches(Watches[WatchedPlace, TopicEntry]):
    """The watches of a log; implements MarkListener.

    Segments lie elsewhere: the tail's change is what is noticed.
    """

    def __init__(self, root: Root) -> None:
        super().__init__(root.clock, _place, _end, self._file_changes)
        self._root = root
        self.partitions: Collection[object] = self._partitions

    def __call__(self, files: PartitionFiles, end: int, *, durable_only: bool) -> None:
        """Pass on how far a partition is written, or durable."""
        self.notify(_new(WatchedPlace, (files, durable_only)), end)

    def notify_topic_dropped(self, entry: TopicEntry) -> None:
        """Pass on that a topic was dropped."""
        self.notify_dropped(
            [WatchedPlace(files, only) for files in entry.partitions for only in (False, True)]
        )

    @translated
    def _file_changes(self) -> FileChanges[WatchedPlace]:
        return FileChanges(self._root.io.file_watcher(), _path)


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
