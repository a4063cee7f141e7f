"""Removes the oldest records: at once by the low-water mark, and later by whole segments."""

import contextlib
from collections.abc import Sequence

from strandline.log.store import Trimmed
from strandline.stores.files.manifest import StoredSegment
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.proving import value_before
from strandline.stores.files.syncing import failing
from strandline.values import CorruptError, Offset


def trim(store: PartitionWriter, low: int) -> Trimmed:
    """Raise the low-water mark to `low`."""
    files = store.files
    if files.marks().high == 0:
        return Trimmed(files.marks(), is_released=True)
    with failing(store.files), store.held():
        if low > files.marks().low:
            _move(store, low)
        marks = files.marks()
        # Records below it in the first segment are released together with that segment.
        return Trimmed(marks, is_released=store.manifest.segments[0].base >= marks.low)


def evict(store: PartitionWriter, before: int) -> Offset:
    """Remove the segments that lie entirely before `before`; the marks do not change."""
    files = store.files
    state = files.look()
    if state is None or before <= state.local:
        return Offset(0 if state is None else state.local)
    with failing(store.files), store.held():
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
        # Raise on damage here, while the records are still stored.
        anchor = value_before(files, state, local) if files.place.is_proved else None
        store.change(local=local, segments=kept, trimmed_bytes=0, anchor=anchor)
        _unlink(store, gone)
    return Offset(local)


def _move(store: PartitionWriter, low: int) -> None:
    files, manifest = store.files, store.manifest
    state = files.look()
    assert state is not None
    if low == state.marks.high and store.place.reserve.is_scarce():
        # If all records go, the last segment can be removed, too.
        store.roll()
        manifest = store.manifest
        state = files.look()
        assert state is not None
    if low > state.marks.durable:
        # Otherwise a power loss could leave an end before the low-water mark.
        store.make_durable()
    gone = [each for each in manifest.segments[:-1] if state.end_of(each)[0] <= low]
    kept = manifest.segments[len(gone) :]
    if gone:
        store.keep_identities()
    position = state.end_of(kept[0])[1]
    first, trimmed_bytes = kept[0].base, 0
    if not gone and manifest.low > first:
        # Records trimmed earlier were counted then.
        first, trimmed_bytes = manifest.low, manifest.trimmed_bytes
    trimmed_bytes += files.size_between(manifest, first, low, position)
    anchor = manifest.anchor
    if files.place.is_proved and low > state.local:
        anchor = None
        # Damage must not prevent trimming; `verify` reports it.
        with contextlib.suppress(CorruptError):
            anchor = value_before(files, state, low)
    store.change(low=low, segments=kept, trimmed_bytes=trimmed_bytes, anchor=anchor)
    _unlink(store, gone)


def _unlink(store: PartitionWriter, gone: Sequence[StoredSegment]) -> None:
    place = store.place
    for each in gone:
        with contextlib.suppress(FileNotFoundError):
            place.io.unlink(place.segment_path(each))
    store.files.close_segments(gone)
