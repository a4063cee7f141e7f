"""Removing the oldest records: exactly, by the low-water mark, and later by whole segments."""

import contextlib
from collections.abc import Sequence

from strandline.log.numbers import check_whole
from strandline.log.terms import check_durable
from strandline.stores.files.cursors import Cursors
from strandline.stores.files.manifest import StoredSegment
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.proving import value_before
from strandline.stores.files.spans import check_not_beyond, first_within, marks_of, offset_at
from strandline.stores.files.topics import TopicEntry
from strandline.values import CorruptError, Offset, TopicSettings, TrimReport


def trim(
    store: PartitionWriter,
    cursors: Cursors,
    entry: TopicEntry,
    before: int,
    *,
    force: bool,
    least: int = 0,
) -> TrimReport:
    """Move the low-water mark to `before`, or as far as the slowest consumer lets it.

    To `least` in any case.
    """
    before = max(check_whole("before", before), least)
    files = store.files
    partition = files.place.partition
    marks = marks_of(files.look())
    check_not_beyond(files, marks, before)
    if marks.high == 0:
        return TrimReport(partition, 0, 0, Offset(0), None)
    with cursors.changing(entry), store.held():
        held_at = None if force else cursors.held_at(entry, partition)
        if held_at is not None and max(held_at, least) >= before:
            held_at = None
        marks = marks_of(files.look())
        low = max(marks.low, before if held_at is None else held_at, least)
        if low > marks.low:
            _move(store, low)
    return TrimReport(partition, low - marks.low, marks.high - low, Offset(low), held_at)


def evict(store: PartitionWriter, before: int) -> Offset:
    """Remove the segments whose records all lie before `before`; the marks stay."""
    files = store.files
    state = files.look()
    check_whole("before", before)
    check_durable(before, marks_of(state).durable)
    if state is None or before <= state.local:
        return Offset(0 if state is None else state.local)
    with store.held():
        if before > store.manifest.active.base:
            store.roll()
        manifest = store.manifest
        state = files.look()
        assert state is not None
        gone = [each for each in manifest.segments[:-1] if state.end_of(each)[0] <= before]
        if not gone:
            return Offset(state.local)
        kept = manifest.segments[len(gone) :]
        store.keep_identities()
        local = max(state.local, kept[0].base)
        # Of damage it is told here, while the records are still there to be kept.
        anchor = value_before(files, state, local) if files.place.is_proved else None
        store.change(local=local, segments=kept, trimmed_bytes=0, anchor=anchor)
        _unlink(store, gone)
    return Offset(local)


def retain(
    store: PartitionWriter, cursors: Cursors, entry: TopicEntry, settings: TopicSettings
) -> TrimReport:
    """Trim to the topic's retention."""
    files = store.files
    state = files.look()
    before = int(marks_of(state).low)
    if settings.retention_age_s is not None:
        oldest_us = files.place.clock.now_us() - settings.retention_age_s * 1_000_000
        aged = offset_at(files, oldest_us)
        # What was evicted may be younger.
        if state is None or aged > state.local:
            before = max(before, aged)
    if settings.retention_bytes is not None and state is not None:
        before = max(before, first_within(files, state, settings.retention_bytes))
    least = 0
    if settings.limit_bytes is not None and state is not None:
        least = first_within(files, state, settings.limit_bytes)
    return trim(store, cursors, entry, before, force=False, least=least)


def _move(store: PartitionWriter, low: int) -> None:
    files, manifest = store.files, store.manifest
    state = files.look()
    assert state is not None
    if low > state.marks.durable:
        # Else a loss of power could leave an end before the low-water mark.
        store.make_durable()
    gone = [each for each in manifest.segments[:-1] if state.end_of(each)[0] <= low]
    kept = manifest.segments[len(gone) :]
    if gone:
        store.keep_identities()
    position = state.end_of(kept[0])[1]
    trimmed_bytes = files.size_between(manifest, kept[0].base, low, position)
    anchor = manifest.anchor
    if files.place.is_proved and low > state.local:
        anchor = None
        # What is damaged must not keep anybody from trimming it; whoever verifies is told.
        with contextlib.suppress(CorruptError):
            anchor = value_before(files, state, low)
    store.change(low=low, segments=kept, trimmed_bytes=trimmed_bytes, anchor=anchor)
    _unlink(store, gone)


def _unlink(store: PartitionWriter, gone: Sequence[StoredSegment]) -> None:
    place = store.place
    for each in gone:
        with contextlib.suppress(FileNotFoundError):
            place.io.unlink(place.segment_path(each))
