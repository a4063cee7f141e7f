"""The tier's part of a log: which object holds an offset, and its rows."""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from strandline.log import Log, parts_of
from strandline.tiering.catalogue import SNAPSHOT_NAME, incomplete, segments_topic
from strandline.tiering.footer import Footer
from strandline.tiering.object_store import ObjectStore
from strandline.tiering.parquet import CopiedRows, digest_of
from strandline.tiering.partition_copies import PartitionCopies, epoch_at
from strandline.tiering.routing import catalogue_partition
from strandline.tiering.segment import CopiedSegment, UserPartition, step_of
from strandline.tiering.segment_view import CatalogueState, SegmentView, take
from strandline.values import (
    CorruptError,
    DivergedError,
    Epoch,
    InvalidError,
    Topic,
    TrimmedError,
    UnavailableError,
)
from strandline.views import RefusedError, load_snapshot

#: How many fetched objects are cached, because readers read in pages.
_KEPT_MAX: Final = 4

_AnswerT = TypeVar("_AnswerT")


def _following(
    epochs: Sequence[Epoch], start: int, stop: int | None, copies: PartitionCopies
) -> Sequence[CopiedSegment]:
    return copies.following(epochs, start, stop)


class ColdSegments:
    """Finds and fetches copies. Any thread may use it.

    The catalogue is folded by the thread that needs an answer: a read must not wait for a
    background thread, and a log whose tier is never read has no cost. It continues from the
    snapshot beside the log, if that matches.
    """

    def __init__(self, hot: Log, open_store: Callable[[str], ObjectStore]) -> None:
        self._hot = hot
        self._open_store = open_store
        self._lock = threading.Lock()
        self._topic: Topic | None = None
        self._count = 0
        self._folded: dict[int, tuple[CatalogueState, int]] = {}
        self._kept: OrderedDict[str, CopiedRows] = OrderedDict()

    # --- which ---

    def find(self, place: UserPartition, epochs: Sequence[Epoch], offset: int) -> CopiedSegment:
        """Return the copy to use for `offset`, which the store has evicted."""
        number = epoch_at(epochs, offset)
        found = self._query(place, lambda copies: copies.find(number, offset))
        if found is None:
            self.catch_up(place)
            found = self._query(place, lambda copies: copies.find(number, offset))
        if found is None:
            self.check_kept(place, offset)
            raise CorruptError(
                "the catalogue knows no copy of this record",
                file=None,
                position=None,
                topic=place.topic,
                partition=place.partition,
                offset=offset,
            )
        return found

    def chain(
        self, place: UserPartition, epochs: Sequence[Epoch], start: int, stop: int
    ) -> Iterator[CopiedSegment]:
        """Yield the copies to use for [start, stop), in order."""
        while start < stop:
            known = self._query(place, partial(_following, epochs, start, stop))
            if not known:
                known = [self.find(place, epochs, start)]
            yield from known
            start = known[-1].end

    def reach(
        self, place: UserPartition, epochs: Sequence[Epoch], start: int
    ) -> Sequence[CopiedSegment]:
        """Return the copies that hold the records from `start` on, up to the first gap."""
        self.catch_up(place)
        return self._query(place, partial(_following, epochs, start, None))

    def evicted(self, place: UserPartition) -> int:
        """Return the offset before which the log may have evicted everything."""
        self.catch_up(place)
        return self._query(place, lambda copies: copies.evicted)

    def listed(self, place: UserPartition) -> Sequence[CopiedSegment]:
        """Return every copy that is not deleted yet."""
        self.catch_up(place)
        return self._query(place, lambda copies: copies.listed())

    def _query(
        self, place: UserPartition, query: Callable[[PartitionCopies], _AnswerT]
    ) -> _AnswerT:
        # Under the lock: catching up changes the state.
        with self._lock:
            if not self._count:
                return query(PartitionCopies())
            folded = self._folded.get(catalogue_partition(*place.identity, self._count))
            known = None if folded is None else folded[0].places.get(place)
            return query(PartitionCopies() if known is None else known)

    def catch_up(self, place: UserPartition) -> None:
        """Fold steps that were added to the catalogue since."""
        with self._lock:
            if self._topic is None:
                self._topic = segments_topic(self._hot)
                if self._topic is None:
                    return
                self._count = self._hot.describe_topic(self._topic).settings.partitions
            number = catalogue_partition(*place.identity, self._count)
            folded = self._folded.get(number) or self._saved(number) or (CatalogueState(), 0)
            self._folded[number] = self._fold(self._topic, number, *folded)

    def _fold(
        self, topic: Topic, number: int, state: CatalogueState, following: int
    ) -> tuple[CatalogueState, int]:
        try:
            for record in self._hot.read(topic, number, following):
                # Every view of the catalogue refuses this step.
                with contextlib.suppress(RefusedError):
                    take(state, step_of(record.kind, record.payload))
                following = record.offset + 1
        except TrimmedError as error:
            raise incomplete(topic, number, error.oldest) from error
        return state, following

    def _saved(self, number: int) -> tuple[CatalogueState, int] | None:
        """Return the snapshot's state of a partition; None if the steps must be folded."""
        path = parts_of(self._hot).store.beside(SNAPSHOT_NAME)
        if path is None:
            return None
        try:
            saved = load_snapshot(path, SegmentView())
            part = saved.partitions.get(number)
            if part is None or part.first or part.quarantined:
                return None
            if (part.position.topic_id, part.position.partition) != (self._topic_id, number):
                return None
            return saved.state(number), self._hot.resolve(part.position)
        except (InvalidError, CorruptError, DivergedError, TrimmedError, UnavailableError):
            return None

    @property
    def _topic_id(self) -> UUID | None:
        return None if self._topic is None else self._topic.id

    def release(self, place: UserPartition) -> None:
        """Drop cached objects: copies were replaced."""
        with self._lock:
            self._kept.clear()
        self.catch_up(place)

    # --- what is in it ---

    def rows(self, segment: CopiedSegment) -> CopiedRows | None:
        """Return the rows of a copy; None if it has been deleted.

        CorruptError if the object is not what was copied.
        """
        with self._lock:
            kept = self._kept.get(segment.name)
            if kept is not None:
                self._kept.move_to_end(segment.name)
                return kept
        content = self._open_store(segment.store).get(segment.name)
        if content is None:
            return None
        if digest_of(content) != segment.digest:
            raise CorruptError(
                "this object is not what was copied, restore it from a copy of the store",
                file=segment.location,
                position=0,
            )
        rows = CopiedRows(content, segment.location)
        with self._lock:
            self._kept[segment.name] = rows
            while len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        return rows

    def footer(self, segment: CopiedSegment) -> Footer | None:
        """Return the footer of a copy, without reading its rows.

        None if the object is gone or differs from what was copied: reading it raises.
        """
        return Footer.of(self._open_store(segment.store), segment.name, segment.size_bytes)

    def with_footer(
        self, place: UserPartition, epochs: Sequence[Epoch], offset: int
    ) -> tuple[CopiedSegment, Footer | None]:
        """Return the copy to use for `offset`, with its footer as returned by `footer`."""
        segment = self.find(place, epochs, offset)
        footer = self.footer(segment)
        if footer is None:
            self.catch_up(place)  # It may have been merged meanwhile.
            segment = self.find(place, epochs, offset)
            footer = self.footer(segment)
        return segment, footer

    def fetched(
        self, place: UserPartition, epochs: Sequence[Epoch], offset: int
    ) -> tuple[CopiedSegment, CopiedRows]:
        """Return the copy to use for `offset`, with its rows."""
        segment = self.find(place, epochs, offset)
        rows = self.rows(segment)
        if rows is None:
            self.catch_up(place)
            self.check_kept(place, offset)
            segment = self.find(place, epochs, offset)
            rows = self.rows(segment)
        if rows is None:
            raise CorruptError(
                "this object is missing, restore it from a copy of the store",
                file=segment.location,
                position=0,
            )
        return segment, rows

    def check_kept(self, place: UserPartition, offset: int) -> None:
        """Raise TrimmedError if a trim has overtaken the reader; ClosedError once closed."""
        low = self._hot.marks(place.named(), place.partition).low
        if offset < low:
            raise TrimmedError(low, partition=place.partition, offset=offset)
