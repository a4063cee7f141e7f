"""The segment catalogue: what the tier holds, as a view over an internal topic."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, Self, TypeVar

from strandline.clock import Clock, SystemClock
from strandline.io import Io
from strandline.log import Log, LogTopics, parts_of
from strandline.tiering.partition_copies import PartitionCopies
from strandline.tiering.routing import catalogue_partition, catalogue_partitions
from strandline.tiering.segment import (
    CopiedSegment,
    DeletionState,
    PartitionDeletion,
    PartitionEviction,
    SegmentChange,
    SegmentState,
    Step,
    UserPartition,
    kind_of,
    payload_of,
)
from strandline.tiering.segment_view import CatalogueState, SegmentView
from strandline.values import CorruptError, Durability, Event, InvalidError, Mode, Topic
from strandline.values.arguments import (
    check_instance,
    check_items,
    check_limit,
    check_seconds,
    check_timeout,
    check_whole,
)
from strandline.values.internal_topics import SEGMENTS_TOPIC
from strandline.values.prompt import few, prompt_text
from strandline.views import PUBLISH_TIMEOUT_S, SNAPSHOT_INTERVAL_S, LiveView, RefusedError
from strandline.views.health import ViewHealth
from strandline.views.live_view import check_poison

CATALOGUE_PARTITIONS: Final = 8
SNAPSHOT_NAME: Final = "catalogue.snapshot"
"""The file beside a log with its catalogue's snapshot; rebuilt if it does not match."""
SNAPSHOT_STEPS: Final = 256
"""How many steps must be folded after a snapshot to make another one worthwhile."""

_AnswerT = TypeVar("_AnswerT")


def segments_topic(log: LogTopics) -> Topic | None:
    """Return the catalogue's topic; None if nothing of this log was ever tiered."""
    try:
        return log.topic(SEGMENTS_TOPIC)
    except InvalidError:
        return None


def made_segments_topic(log: Log, partitions: int = CATALOGUE_PARTITIONS) -> Topic:
    """Return the catalogue's topic, created if it is missing and the mode allows it."""
    found = segments_topic(log)
    if found is not None:
        return found
    if log.mode is Mode.READ:
        raise InvalidError("nothing of this log was ever tiered", mode=log.mode)
    return log.create_topic(SEGMENTS_TOPIC, partitions=partitions, internal=True)


@contextlib.contextmanager
def saved_catalogue(log: Log, clock: Clock | None = None) -> Iterator["SegmentCatalogue"]:
    """Give the catalogue of a log, continued from the snapshot beside the log.

    Saves a snapshot at the end if it spares the next use at least SNAPSHOT_STEPS steps.
    """
    snapshot = parts_of(log).store.beside(SNAPSHOT_NAME) if log.mode is Mode.WRITE else None
    catalogue = SegmentCatalogue(log, snapshot=snapshot, clock=clock)
    try:
        yield catalogue
    finally:
        parts = catalogue.health().partitions.values()
        steps = sum(each.applied - each.committed for each in parts)
        catalogue.close(save=steps >= SNAPSHOT_STEPS)


class SegmentCatalogue:
    """Answers what the tier holds, and records the steps of tiering one by one.

    Whether a step is legal depends only on earlier steps in the log, for every process equally:
    an illegal one raises RefusedError, and nothing has changed. When a call returns, its step is
    durable, and later answers here include it. Nothing is assigned until `reconcile`; the
    outcomes for unassigned, not ready and ready partitions are as in `LiveView`, and so is
    `poison`: what to do with a step that this version cannot read. If a partition has several
    epochs, an offset is looked up in one of them.
    """

    def __init__(
        self,
        log: Log,
        *,
        partitions: int = CATALOGUE_PARTITIONS,
        snapshot: str | os.PathLike[str] | None = None,
        snapshot_interval_s: float = SNAPSHOT_INTERVAL_S,
        poison: Literal["stop", "quarantine"] = "stop",
        clock: Clock | None = None,
        io: Io | None = None,
    ) -> None:
        check_seconds("snapshot_interval_s", snapshot_interval_s, allows_zero=False)
        check_poison(poison)
        self._log = log
        self._clock = clock or SystemClock()
        self.topic: Final = made_segments_topic(log, partitions)
        self._count = log.describe_topic(self.topic).settings.partitions
        self._view = LiveView(
            log,
            self.topic,
            SegmentView(),
            snapshot=snapshot,
            snapshot_interval_s=snapshot_interval_s,
            poison=poison,
            clock=clock,
            io=io,
        )

    def __repr__(self) -> str:
        return prompt_text("SegmentCatalogue", self._log, few(self.assigned()))

    def check_is_of(self, log: Log) -> None:
        """Raise InvalidError if this is the catalogue of another log."""
        if log.id != self._log.id:
            raise InvalidError(
                "this is the catalogue of another log, pass one of the log that is tiered",
                log=str(log.id),
                catalogue=str(self._log.id),
            )

    # --- assignment ---

    def partition_of(self, place: UserPartition) -> int:
        """Return the catalogue's partition that has the steps of `place`."""
        checked = check_instance("place", place, UserPartition)
        return catalogue_partition(*checked.identity, self._count)

    def reconcile(self, partitions: Iterable[int]) -> None:
        """Assign exactly these partitions of the catalogue."""
        self._view.reconcile(partitions)

    def follow(self, places: Iterable[UserPartition], timeout_s: float | None = None) -> None:
        """Also assign the catalogue's partitions for these places; wait until they are ready."""
        chosen = [
            check_instance("places", each, UserPartition) for each in check_items("places", places)
        ]
        wanted = {*self.assigned(), *catalogue_partitions(chosen, self._count)}
        self._view.reconcile(wanted)
        self._view.wait_ready(timeout_s)

    def follow_all(self, timeout_s: float | None = None) -> None:
        """Assign every partition of the catalogue, and wait until all are ready."""
        self._view.reconcile(range(self._count))
        self._view.wait_ready(timeout_s)

    def refresh(self, timeout_s: float | None = PUBLISH_TIMEOUT_S) -> None:
        """Wait until everything that the log has at this moment is applied."""
        timeout_s = check_timeout(timeout_s)
        for partition in self.assigned():
            high = self._log.marks(self.topic, partition).high
            if high:
                self._view.wait_applied(partition, high - 1, timeout_s)

    def rebuild(self, partitions: Iterable[int] | None = None) -> None:
        """Drop states and snapshots, and fold again: all assigned partitions, or these.

        A stopped partition starts again, and quarantined steps are tried again.
        """
        self._view.rebuild(partitions)

    def assigned(self) -> Sequence[int]:
        """Return the assigned partitions, rising."""
        return self._view.assigned()

    def committed(self, partition: int) -> int:
        """Return the last offset in the snapshot; -1 if there is none."""
        return self._view.committed(partition)

    def health(self) -> ViewHealth:
        """Return the view's health."""
        return self._view.health()

    def lag(self) -> Mapping[int, int]:
        """Return the number of steps not applied yet, for each assigned partition."""
        return {int(partition): lag for partition, lag in self._view.lag().items()}

    # --- answers ---

    def find(self, place: UserPartition, epoch: int, offset: int) -> CopiedSegment | None:
        """Return the finished copy to use for this offset; None if there is none."""
        epoch, offset = check_whole("epoch", epoch), check_whole("offset", offset)
        return self._query(place, lambda copies: copies.find(epoch, offset), None)

    def segments(self, place: UserPartition, epoch: int | None = None) -> Sequence[CopiedSegment]:
        """Return the copies that are not deleted, by start; of one epoch if given."""
        epoch = check_limit("epoch", epoch)
        return self._query(place, lambda copies: copies.listed(epoch), ())

    def current(self, place: UserPartition) -> Sequence[CopiedSegment]:
        """Return the finished copies, by start, except those merged into others."""
        return self._query(place, lambda copies: copies.current(), ())

    def merged(self, place: UserPartition) -> Sequence[tuple[CopiedSegment, int]]:
        """Return the copies that were merged into others, with the time of the merge in µs."""

        def found(copies: PartitionCopies) -> Sequence[tuple[CopiedSegment, int]]:
            known = [each for each in copies.listed() if copies.is_merged(each)]
            into = ((each, copies.successor(each.id)) for each in known)
            return [(each, one.changed_at_us) for each, one in into if one is not None]

        return self._query(place, found, ())

    def highest_readable_offset(self, place: UserPartition, epoch: int) -> int | None:
        """Return the highest offset of the epoch that can be read from the tier now."""
        epoch = check_whole("epoch", epoch)
        return self._query(place, lambda copies: copies.readable(epoch), None)

    def highest_copied_offset(self, place: UserPartition, epoch: int) -> int | None:
        """Return the highest offset of the epoch that was ever copied, deleted or not."""
        epoch = check_whole("epoch", epoch)
        end = self._query(place, lambda copies: copies.copied.get(epoch), None)
        return None if end is None else end - 1

    def deletion(self, place: UserPartition) -> DeletionState | None:
        """Return the state of removing the whole partition; None if that has not begun."""
        return self._query(place, lambda copies: copies.deletion, None)

    def places(self) -> Sequence[UserPartition]:
        """Return every partition with anything in the tier, of the assigned ones."""
        found: list[UserPartition] = []
        for partition in self.assigned():
            known = self._view.read(partition, lambda state: list(state.places))
            found += known or []
        return sorted(found, key=lambda place: place.identity)

    def _query(
        self,
        place: UserPartition,
        query: Callable[[PartitionCopies], _AnswerT],
        nothing: _AnswerT,
    ) -> _AnswerT:
        def answer(state: CatalogueState) -> _AnswerT:
            copies = state.places.get(place)
            return nothing if copies is None else query(copies)

        return self._view.read(self.partition_of(place), answer, default=nothing)

    def check_whole(self) -> None:
        """Raise CorruptError if steps are missing in any assigned partition.

        The catalogue may then lack some of the tier's objects, and must not be used to delete.
        """
        for number, each in self._view.health().partitions.items():
            if each.first or each.quarantined:
                raise incomplete(self.topic, number, each.first, each.quarantined)

    # --- steps ---

    def add(self, segment: CopiedSegment, *, timeout_s: float = PUBLISH_TIMEOUT_S) -> None:
        """Record that a copy starts. RefusedError, with nothing stored, for any other state."""
        if segment.state is not SegmentState.COPY_STARTED:
            raise RefusedError("a segment is added when its copy starts", state=segment.state.name)
        self._publish(segment, timeout_s)

    def change(
        self,
        segment: CopiedSegment,
        state: SegmentState,
        *,
        note: str | bytes | None = None,
        low: int = 0,
        is_apart: bool = False,
        timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> None:
        """Record that the copy is now in `state`.

        The only copy of evicted records is deleted only below `low`, the partition's low-water
        mark. A `note` replaces the existing one. With `is_apart` a copy is finished only if no
        finished copy holds any of its records.
        """
        step = SegmentChange(
            id=segment.id,
            place=segment.place,
            state=state,
            changed_at_us=self._clock.now_us(),
            note_text=note if isinstance(note, str) else None,
            note_bytes=note if isinstance(note, bytes) else None,
            low=low,
            is_apart=is_apart,
        )
        self._publish(step, timeout_s)

    def evict(
        self,
        place: UserPartition,
        start: int,
        before: int,
        *,
        timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> None:
        """Record that the log is about to evict [start, before).

        RefusedError unless finished copies hold all of it; they must be kept from then on.
        """
        step = PartitionEviction(
            place=place, start=start, before=before, changed_at_us=self._clock.now_us()
        )
        self._publish(step, timeout_s)

    def delete_partition(
        self,
        place: UserPartition,
        state: DeletionState,
        *,
        timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> None:
        """Record the state of removing the whole partition."""
        step = PartitionDeletion(place=place, state=state, changed_at_us=self._clock.now_us())
        self._publish(step, timeout_s)

    def _publish(self, step: Step, timeout_s: float) -> None:
        self._view.publish(
            Event(kind_of(step), payload_of(step)),
            partition=self.partition_of(step.place),
            durability=min(Durability.DURABLE, self._log.durability_max),
            timeout_s=timeout_s,
        )

    # --- keeping and ending ---

    def save(self) -> None:
        """Write a snapshot now."""
        self._view.save()

    def close(self, *, save: bool = True) -> None:
        """Close the view, after a last snapshot if `save`. May be repeated."""
        self._view.close(save=save)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def incomplete(
    topic: Topic, partition: int, first: int, quarantined: Iterable[int] = ()
) -> CorruptError:
    """Return the error for a catalogue that has lost or skipped steps."""
    return CorruptError(
        "steps of the segment catalogue are missing, so nothing may be deleted by it; restore "
        "the log from a backup",
        file=None,
        position=None,
        topic=topic.name,
        partition=partition,
        first=first,
        quarantined=list(quarantined),
    )
