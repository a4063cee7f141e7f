"""Hints of what any process appends: a change of the partition's directory."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from strandline.log.file_news import FileNews
from strandline.log.results import TopicName
from strandline.log.watches import Spot, Watches
from strandline.stores.files.file_errors import translated, unavailable
from strandline.stores.files.partition import DroppedError, PartitionFiles
from strandline.stores.files.root import Root
from strandline.stores.files.topics import TopicEntry
from strandline.values import Partition

# What makes a named tuple by name is slow, and one is made for each append.
_new: Any = tuple.__new__


class WatchedPlace(NamedTuple):
    """A partition, and which of its ends is watched."""

    files: PartitionFiles
    durable_only: bool


class FileWatches(Watches[WatchedPlace]):
    """The watches of a log; implements Telling.

    Segments lie elsewhere: the tail's change is what is noticed.
    """

    def __init__(self, root: Root, find: Callable[[TopicName], TopicEntry]) -> None:
        super().__init__(root.clock, self._spot, _end, self._news_of_files)
        self._root = root
        self._find_topic = find
        self.partitions: Collection[object] = self._partitions

    def __call__(self, files: PartitionFiles, end: int, *, durable_only: bool) -> None:
        """Pass on how far a partition is written, or durable."""
        self.tell(_new(WatchedPlace, (files, durable_only)), end)

    def tell_topic_dropped(self, entry: TopicEntry) -> None:
        """Pass on that a topic was dropped."""
        self.tell_dropped(
            [WatchedPlace(files, only) for files in entry.partitions for only in (False, True)]
        )

    @translated
    def _news_of_files(self) -> FileNews[WatchedPlace]:
        return FileNews(self._root.io.lookout(), _path)

    @translated
    def _spot(self, topic: TopicName, partition: int, durable_only: bool) -> Spot[WatchedPlace]:
        entry = self._find_topic(topic)
        files = entry.files(partition)
        return Spot(WatchedPlace(files, durable_only), entry.topic, Partition(partition))


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
