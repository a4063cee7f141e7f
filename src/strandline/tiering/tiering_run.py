"""One pass over a topic's partitions; each step is recorded in the catalogue first."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from strandline.clock import Clock
from strandline.log import Log
from strandline.tiering.catalogue import SegmentCatalogue
from strandline.tiering.compacting import merges_of, uniform_parts
from strandline.tiering.copying import PIECE_BYTES, CopyDraft, read_piece
from strandline.tiering.footer import Footer
from strandline.tiering.object_store import ObjectStore, open_store
from strandline.tiering.parquet import CopiedRows, digest_of
from strandline.tiering.removal import give_up, retire, topic_places
from strandline.tiering.routing import topic_folder
from strandline.tiering.segment import (
    CopiedSegment,
    SegmentState,
    UserPartition,
)
from strandline.tiering.table_files import TableFiles
from strandline.tiering.tables import NO_TABLES, Tables, publish_tables
from strandline.tiering.tier_report import TierReport, TierStep
from strandline.values import (
    CorruptError,
    Durability,
    InvalidError,
    TrimmedError,
    UnavailableError,
)
from strandline.views import RefusedError


class CopyRun(NamedTuple):
    """Records [start, end) to copy, and the size limit of an object for them."""

    start: int
    end: int
    bytes_max: int | None


class TieringRun:
    """One pass over partitions, with what it has verified itself."""

    def __init__(
        self,
        log: Log,
        store: ObjectStore,
        catalogue: SegmentCatalogue,
        progress: Callable[[TierStep], None] | None,
        clock: Clock,
    ) -> None:
        self._log = log
        self._store = store
        self._catalogue = catalogue
        self._progress = progress
        self._clock = clock
        #: The names of objects that this run has read back.
        self._verified: set[str] = set()
        #: Whether the store has answered in this run.
        self._is_reached = False
        self._unfit: InvalidError | None = None
        self.report: Final = TierReport()

    # --- what earlier runs left ---

    def settle(self, places: Sequence[UserPartition]) -> None:
        """Finish what another process began, and delete copies of trimmed records."""
        self._catalogue.refresh()
        listed = [each for place in places for each in self._catalogue.segments(place)]
        for url in dict.fromkeys(each.store for each in listed):
            segments = [each for each in listed if each.store == url]
            try:
                self._settle_in_store(places, segments)
            except (UnavailableError, InvalidError) as error:
                if url == self._store.url:
                    raise
                give_up(self._catalogue, segments, error)

    def _settle_in_store(
        self, places: Sequence[UserPartition], segments: Sequence[CopiedSegment]
    ) -> None:
        lows = {place: self._low(place) for place in places}
        old: list[CopiedSegment] = []
        for segment in segments:
            if segment.state is SegmentState.DELETE_STARTED or segment.end <= lows[segment.place]:
                old.append(segment)
            elif segment.state is SegmentState.COPY_STARTED:
                self._continue_copy(segment)
        self._retire(places, old)

    def remove_merged(self, places: Sequence[UserPartition], grace_s: int) -> None:
        """Delete copies that were merged long ago, when hardly any reader uses them."""
        until_us = self._clock.now_us() - grace_s * 1_000_000
        merged = [each for place in places for each in self._catalogue.merged(place)]
        self._retire(places, [segment for segment, since_us in merged if since_us <= until_us])

    def _continue_copy(self, segment: CopiedSegment) -> None:
        store = self._store_of(segment)
        content = store.get(segment.name)
        if content is None or digest_of(content) != segment.digest:
            try:
                piece = read_piece(self._log, segment.place, segment.start, segment.end)
            except TrimmedError:
                self._retire([segment.place], [segment])
                return
            if (piece.end, piece.digest) != (segment.end, segment.digest):
                # Begun by a version that encodes differently, perhaps: replace it by a new copy.
                self._retire([segment.place], [segment])
                return
            content = piece.content
        # Write it again even if it exists: the process that wrote it may have crashed before
        # it was durable.
        self._finish(segment, content)

    def _retire(self, places: Sequence[UserPartition], segments: Sequence[CopiedSegment]) -> None:
        lows = {place: self._low(place) for place in places}
        for segment in retire(self._log, self._catalogue, segments, lows, self._opened):
            self.report.deleted += 1
            self._notify(segment, SegmentState.DELETE_FINISHED)

    # --- the tables ---

    def publish(self, places: Sequence[UserPartition], tables: Tables) -> bool:
        """Update the topic's tables to the tier's content, and make those that are wanted.

        Returns whether copies must be made again, because their objects were lost.
        """
        topic = places[0].named()
        existing = Tables.existing(self._store, topic)
        if tables == existing == NO_TABLES:
            return False
        every = topic_places(self._log, self._catalogue, topic)
        files = TableFiles(self._catalogue, every, self._store)
        lost, self._unfit = publish_tables(self._log, files, self._clock, existing, tables)
        return self._forget(every, lost) if lost else False

    def check_tables(self) -> None:
        """Raise InvalidError if a table could not hold all that is tiered."""
        if self._unfit is not None:
            error = InvalidError(
                f"the records are tiered, but not all are in the topic's table: {self._unfit}"
            )
            error.fields = self._unfit.fields
            raise error

    def _forget(self, places: Sequence[UserPartition], first: Sequence[CopiedSegment]) -> bool:
        """Drop lost copies whose records the log still has; return whether there are any.

        Besides the first one of each partition, those after it whose objects are missing.
        """
        there = set(self._store.list(topic_folder(places[0].named())))
        lost = []
        for begin in first:
            start = max(begin.start, self._local(begin.place))
            for each in self._catalogue.current(begin.place):
                is_suspect = each.id == begin.id or each.name not in there
                is_ours = each.store == self._store.url and each.start >= start
                if is_ours and is_suspect and self._fault(each) is not None:
                    lost.append(each)
        self.report.damaged += len(lost)
        self._retire(places, lost)
        return bool(lost)

    # --- copying ---

    def copy(self, place: UserPartition, piece_records: int, *, include_open: bool) -> None:
        """Copy every sealed run that has no finished copy."""
        for run in self.runs(place, piece_records, include_open=include_open):
            self.copy_run(place, run)

    def copy_run(self, place: UserPartition, run: CopyRun) -> None:
        """Copy one of `runs`."""
        start = run.start
        while start < run.end:
            try:
                piece = read_piece(self._log, place, start, run.end, bytes_max=run.bytes_max)
            except TrimmedError as error:
                start = error.oldest
                continue
            self._add(place, piece)
            start = piece.end

    def runs(
        self, place: UserPartition, piece_records: int, *, include_open: bool
    ) -> Sequence[CopyRun]:
        """Return every sealed run without a finished copy, after making it durable."""
        topic, number = place.named(), place.partition
        marks = self._log.sync(topic, number)
        end = marks.durable if self._log.durability_max is Durability.DURABLE else marks.high
        local, finished = self._local(place), self._catalogue.current(place)
        found: list[CopyRun] = []
        for segment in self._log.segments(topic, number):
            limit = PIECE_BYTES if segment.size_bytes > PIECE_BYTES else None
            for start, stop in _gaps(finished, max(segment.start, local), min(segment.end, end)):
                for at in range(start, stop, piece_records):
                    upto = min(stop, at + piece_records)
                    is_full = upto - at == piece_records
                    if is_full or include_open or segment.is_sealed or stop < segment.end:
                        found.append(CopyRun(at, upto, limit))
        return found

    # --- merging ---

    def compact(self, place: UserPartition, bytes_max: int) -> None:
        """Merge neighbouring copies into larger ones."""
        for members in self.merges(place, bytes_max):
            self.merge(place, members)

    def merges(self, place: UserPartition, bytes_max: int) -> Sequence[Sequence[CopiedSegment]]:
        """Return the copies worth merging; each sequence becomes one copy."""
        low = self._low(place)
        known = [each for each in self._catalogue.current(place) if each.start >= low]
        found = merges_of([each for each in known if each.store == self._store.url], bytes_max)
        return [
            part
            for members in found
            for part in uniform_parts(self._log, place, members, self._store)
        ]

    def merge(self, place: UserPartition, members: Sequence[CopiedSegment]) -> None:
        """Replace several copies by one; they stay until `remove_merged`."""
        start, end = members[0].start, max(each.end for each in members)
        try:
            piece = read_piece(self._log, place, start, end)
        except TrimmedError as error:
            if self._low(place) <= start:
                raise InvalidError(
                    "this log does not read its tier, open it with strandline.open",
                    offset=start,
                ) from error
            return  # Another process was first.
        if piece.end == end and self._is_packed(members[0]) == Footer(piece.content).is_packed:
            self._add(place, piece, tuple(each.id for each in members))

    def _is_packed(self, segment: CopiedSegment) -> bool | None:
        footer = Footer.of(self._store, segment.name, segment.size_bytes)
        return None if footer is None else footer.is_packed

    def _add(self, place: UserPartition, piece: CopyDraft, merges: tuple[UUID, ...] = ()) -> None:
        segment_id = self._clock.new_id()
        segment = CopiedSegment(
            id=segment_id,
            place=place,
            start=piece.start,
            end=piece.end,
            epochs=piece.epochs,
            first_us=piece.first_us,
            last_us=piece.last_us,
            record_bytes=piece.record_bytes,
            size_bytes=len(piece.content),
            digest=piece.digest,
            store=self._store.url,
            # The id, so that a late deletion of an earlier copy never deletes a later one.
            name=f"{topic_folder(place.named())}/{place.partition}"
            f"/{piece.start:020d}-{piece.end:020d}"
            f"-{piece.digest[:16]}-{segment_id.hex}.parquet",
            changed_at_us=self._clock.now_us(),
            merges=merges,
        )
        if not self._is_reached:
            # Record no step for a store that does not answer: its URL may be wrong, and a copy
            # begun there could be neither finished nor deleted.
            self._store.get(segment.name)
            self._is_reached = True
        try:
            self._catalogue.add(segment)
        except RefusedError:
            self._join(place, piece)
        else:
            self._notify(segment)
            self._finish(segment, piece.content)

    def _join(self, place: UserPartition, piece: CopyDraft) -> None:
        """Continue a copy of the same run that another process has just begun."""
        self._catalogue.refresh()
        for segment in self._catalogue.segments(place):
            if (segment.start, segment.end) != (piece.start, piece.end):
                continue
            if segment.state is SegmentState.COPY_STARTED and segment.digest == piece.digest:
                self._finish(segment, piece.content)

    def _finish(self, segment: CopiedSegment, content: bytes) -> None:
        """Upload, read back, and only then record the copy as finished."""
        store = self._store_of(segment)
        note = store.put(segment.name, content)
        fault = self._fault(segment)
        if fault is not None:
            if self._is_deleted(segment):
                self._make_way(segment)
                return
            raise UnavailableError(
                "the object store did not keep what was put there, try again",
                location=segment.location,
                reason=fault,
            )
        apart, done = not segment.predecessors, SegmentState.COPY_FINISHED
        try:
            self._catalogue.change(segment, done, note=note, is_apart=apart)
        except RefusedError:
            # Another process is deleting it, or a copy to be merged, because records were trimmed
            # or erased. Or another process has copied some of these records meanwhile.
            self._make_way(segment)
            return
        self._verified.add(segment.name)
        self._count(segment)
        self._notify(segment, SegmentState.COPY_FINISHED)

    def _is_deleted(self, segment: CopiedSegment) -> bool:
        """Whether another process is deleting the copy, or has deleted it."""
        self._catalogue.refresh()
        found = [each for each in self._catalogue.segments(segment.place) if each.id == segment.id]
        return all(each.state is SegmentState.DELETE_STARTED for each in found)

    def _make_way(self, segment: CopiedSegment) -> None:
        """Delete a copy that must not be finished."""
        self._retire([segment.place], [segment])
        # If it is still listed, it is needed: another process has finished it after all.
        if all(segment.id != each.id for each in self._catalogue.segments(segment.place)):
            self._store_of(segment).delete(segment.name)

    def _count(self, segment: CopiedSegment) -> None:
        if segment.merges:
            self.report.merged += len(segment.merges)
            return
        self.report.copied += 1
        self.report.copied_records += segment.end - segment.start
        self.report.copied_bytes += segment.size_bytes

    def _fault(self, segment: CopiedSegment) -> str | None:
        """Read a copy back, and return what is wrong with it; None if nothing."""
        content = self._store_of(segment).get(segment.name)
        if content is None:
            return "the object is missing"
        if (len(content), digest_of(content)) != (segment.size_bytes, segment.digest):
            return "the digest differs"
        try:
            rows = CopiedRows(content, segment.location)
            rows.check(segment.start, segment.end)
        except CorruptError as error:
            return str(error)
        return None if rows.rows == rows.about.rows else "the number of rows differs"

    # --- evicting ---

    def evict(self, place: UserPartition, age_s: int | None, bytes_max: int | None) -> None:
        """Evict records from the log that exceed the limits and have a verified copy."""
        if age_s is None and bytes_max is None:
            return
        local = before = self._local(place)
        kept = sum(
            segment.size_bytes
            for segment in self._log.segments(place.named(), place.partition)
            if segment.start >= local
        )
        oldest_us = None if age_s is None else self._clock.now_us() - age_s * 1_000_000
        for segment in self._catalogue.current(place):
            if segment.end <= before:
                continue
            is_old = oldest_us is not None and segment.last_us <= oldest_us
            is_much = bytes_max is not None and kept > bytes_max
            if segment.start > before or not (is_old or is_much) or not self._is_right(segment):
                break
            before = segment.end
            kept -= segment.record_bytes
        if before > local:
            try:
                self._catalogue.evict(place, local, before)
            except RefusedError:
                return  # Another process has deleted a copy meanwhile.
            now = self._log.evict(place.named(), place.partition, before)
            self.report.evicted_records += max(0, now - local)

    def _is_right(self, segment: CopiedSegment) -> bool:
        if segment.name in self._verified:
            return True
        if self._fault(segment) is None:
            self._verified.add(segment.name)
            return True
        # The log still has the records: the next run copies them again.
        self.report.damaged += 1
        self._retire([segment.place], [segment])
        return False

    # --- inside ---

    def _local(self, place: UserPartition) -> int:
        return self._log.evict(place.named(), place.partition, 0)

    def _low(self, place: UserPartition) -> int:
        return self._log.marks(place.named(), place.partition).low

    def _store_of(self, segment: CopiedSegment) -> ObjectStore:
        return self._opened(segment.store)

    def _opened(self, url: str) -> ObjectStore:
        return self._store if url == self._store.url else open_store(url)

    def _notify(
        self, segment: CopiedSegment, state: SegmentState = SegmentState.COPY_STARTED
    ) -> None:
        if self._progress is not None:
            self._progress(TierStep(state, segment))


def _gaps(finished: Sequence[CopiedSegment], start: int, end: int) -> Sequence[tuple[int, int]]:
    """Return the runs of [start, end) without a finished copy."""
    gaps = []
    for copied in finished:
        if copied.end <= start or copied.start >= end:
            continue
        if copied.start > start:
            gaps.append((start, copied.start))
        start = max(start, copied.end)
    if start < end:
        gaps.append((start, end))
    return gaps
