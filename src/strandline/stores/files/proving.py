"""The hash chain of a topic with a proof, as stored in its frames."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec

from strandline.log.history import Damage, History, Piece
from strandline.stores.files.entries import entries_of
from strandline.stores.files.frame import Frame, split_terms
from strandline.stores.files.identity_window import findings
from strandline.stores.files.manifest import Manifest
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.segment import FRAMES_AT
from strandline.stores.files.state import State
from strandline.stores.files.tail import End
from strandline.values import CorruptError, Marks, Offset, ProofFinding, TrimmedError


def value_after(frame: Frame, file: str) -> bytes | None:
    """Return the chain's value after the last record of a frame; None if it holds none."""
    try:
        terms, _ = split_terms(frame)
    except (ValueError, msgspec.MsgspecError) as error:
        raise CorruptError(
            "this frame cannot be read", file=file, position=frame.position, reason=str(error)
        ) from error
    return None if terms is None else terms.chain


def value_before(files: PartitionFiles, state: State, offset: int) -> bytes:
    """Return the chain's value before `offset`, which lies between the marks of `state`."""
    place, manifest = files.place, state.manifest
    if offset == 0:
        return place.chain.origin
    if offset <= state.local:
        if manifest.anchor is None:
            raise CorruptError("the anchor is missing", file=place.path(manifest.tail), position=0)
        return manifest.anchor
    file, frame = next(files.frames(state, offset - 1, offset))
    if frame.stop == offset:
        value = value_after(frame, file)
        if value is None:
            raise CorruptError("no proof is stored here", file=file, position=frame.position)
        return value
    start = max(frame.base, state.local)
    value = value_before(files, state, start)
    for entry in entries_of(frame, place.kind, file)[start - frame.base : offset - frame.base]:
        value = place.chain.link_kept(value, entry)
    return value


def history_of(
    files: PartitionFiles, start: int, end: int | None, check_open: Callable[[], None]
) -> History:
    """Return what is stored of [start, end)."""
    place, state = files.place, files.look()
    if state is None:
        anchor = place.chain.origin if place.is_proved else None
        return History(place.partition, 0, 0, place.chain, anchor, place.is_proved, ())
    low = max(start, state.local)
    high = max(low, state.marks.high if end is None else min(end, state.marks.high))
    anchor = None
    if place.is_proved:
        # If it is missing, verification reports it.
        with contextlib.suppress(CorruptError):
            anchor = value_before(files, state, low)
    pieces: Iterable[Piece | Damage | ProofFinding] = _pieces(files, state, low, high, check_open)
    if start <= state.marks.low:
        pieces = chain(findings(files, state), pieces)
    return History(place.partition, low, high, place.chain, anchor, place.is_proved, pieces)


def _pieces(
    files: PartitionFiles, state: State, start: int, stop: int, check_open: Callable[[], None]
) -> Iterator[Piece | Damage]:
    """Yield the records of each frame; damaged parts are reported and skipped.

    TrimmedError if a trim has overtaken it.
    """
    while start < stop:
        try:
            for file, frame in files.frames(state, start, stop):
                check_open()
                piece = _piece(files, state, (file, frame), start, stop)
                yield piece
                start = frame.stop
        except CorruptError as error:
            _check_not_trimmed(files, start)
            following = _next_readable(files, state, start)
            yield Damage(start, following, str(error))
            start = following


def _piece(
    files: PartitionFiles, state: State, found: tuple[str, Frame], start: int, stop: int
) -> Piece | Damage:
    file, frame = found
    try:
        entries = entries_of(frame, files.place.kind, file)[: stop - frame.base]
        value = value_after(frame, file)
        if stop < frame.stop and files.place.is_proved:
            value = value_before(files, state, stop)
        return Piece(entries[max(0, start - frame.base) :], value)
    except CorruptError as error:
        return Damage(max(start, frame.base), min(stop, frame.stop), str(error))


def _next_readable(files: PartitionFiles, state: State, offset: int) -> int:
    """Return the first offset after `offset` at which a frame verifies."""
    stored = state.segment_of(offset)
    end, position = state.end_of(stored)
    try:
        segment = files.segment(state.manifest, stored)
    except (CorruptError, FileNotFoundError):
        return end
    found = segment.search(FRAMES_AT, position)
    later = (frame.base for frame in found if offset < frame.base < end)
    return min(later, default=end)


def _check_not_trimmed(files: PartitionFiles, offset: int) -> None:
    state = files.look()
    low = 0 if state is None else state.local
    if offset < low:
        raise TrimmedError(low, partition=files.place.partition, offset=offset)


def value_at(
    files: PartitionFiles, manifest: Manifest, end: End, known: tuple[End, int, bytes]
) -> bytes:
    """Return the chain's value at an end in the segment that was last written to.

    `known` is the end that was known before, with the next offset and the value then.
    """
    old, next_offset, value = known
    if end.next == old.next == next_offset:
        return value
    if end.next > old.next:
        with contextlib.suppress(CorruptError):
            segment = files.segment(manifest, manifest.active)
            found = value_after(segment.last_frame(old.position, end.position), segment.path)
            if found is not None:
                return found
    return value_found(files, manifest, end)


def value_found(files: PartitionFiles, manifest: Manifest, end: End) -> bytes:
    """Return the chain's value at an end, from the frames alone."""
    marks = Marks(Offset(manifest.low), Offset(end.next), Offset(manifest.low))
    state = State(manifest, end.position, marks, end.last_us, end.size_bytes, end.crc)
    try:
        return value_before(files, state, end.next)
    except CorruptError:
        # Damage stays a finding of `verify`, and does not prevent appends.
        return files.place.chain.origin
