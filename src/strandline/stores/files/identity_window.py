"""The identities that a partition recognises, read from its frames and kept in a snapshot.

See design 0072 for the handling of damage to it.
"""

import logging
import os
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

import msgspec

from strandline.log.decide import is_lane
from strandline.log.identities import Identities, IdentityState, Original
from strandline.stores.files import checked
from strandline.stores.files.frame import AppendIdentity, Frame, appends_in
from strandline.stores.files.manifest import Manifest, epochs_in
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.state import State
from strandline.stores.files.times import offset_at
from strandline.values import IDENTITY_AGE_S, CorruptError, Offset, ProofFinding, Tenant

KIND = "identities"
SUFFIXES = (".identities", ".identities-copy")
"""Each snapshot has two copies: once frames are gone, nothing else holds their identities."""

_logger = logging.getLogger("strandline")


class _Snapshot(msgspec.Struct, frozen=True):
    """All identities recognised at one offset."""

    epoch: int
    epoch_id: UUID
    offset: int
    state: IdentityState


class IdentityWindow:
    """Owned by the holder of the partition's lock."""

    def __init__(self, files: PartitionFiles) -> None:
        self._files = files
        #: Whether it has been needed yet.
        self.is_used: bool = False
        self._identities: Identities | None = None
        self._offset = 0
        self._epoch: UUID | None = None

    def load(self) -> bool:
        """Read the stored snapshot, unless that is done; return whether some of it is damaged."""
        state = self._files.look()
        assert state is not None
        return self._load(state)

    def up_to_date(self) -> Identities:
        """Return the identities of every record before the current drain."""
        self.is_used = True
        state = self._files.look()
        assert state is not None
        return self._read(state, state.marks.high)

    def begin(self, manifest: Manifest, offset: int) -> None:
        """Begin with no identities before `offset`, unless some are stored already."""
        self.is_used = True
        place, epochs = self._files.place, {each.number for each in manifest.epochs}
        names = place.io.list(place.directory)
        self._identities, self._offset = Identities(), offset
        self._epoch = manifest.epoch.id
        if any(epochs.intersection(epochs_in(names, suffix)) for suffix in SUFFIXES):
            # Left by a crash before the manifest referred to it; or the manifest is an older copy.
            state = self._files.look()
            assert state is not None
            oldest = manifest.segments[0].base
            if not _is_outdated(find_snapshots(self._files, state), oldest):
                self.invalidate()
                return
            self._offset = oldest
            self._read(state, offset)
        self._store(manifest, self._identities)

    def wrote(self, start: int, end: int) -> None:
        """Note that a drain has written [start, end), and has added its identities itself."""
        if self._offset == start:
            self._offset = end

    def invalidate(self) -> None:
        """Drop the cache: what it holds may not be stored. It is read again when needed."""
        self._identities = None

    def store(self, manifest: Manifest) -> None:
        """Store a snapshot in two files, so that older frames may be removed."""
        try:
            identities = self.up_to_date()
        except CorruptError as error:
            # Only writes that need the identities raise; all others are accepted.
            _logger.error("identities cannot be stored: %s", error)
            return
        self._store(manifest, identities)

    def store_copy(self, state: State, manifest: Manifest, directory: str, end: int) -> None:
        """Store in another directory the identities for a copy that ends at `end`."""
        known = self._read(state, max(end, state.local)).state()
        self._store_in(directory, manifest, end, _before(known, end))

    def store_first(self, manifest: Manifest, offset: int, state: IdentityState) -> None:
        """Store the identities of records before the first one."""
        self._store_in(self._files.place.directory, manifest, offset, state)

    def recognised(self, state: State) -> IdentityState:
        """Return the identities recognised up to the end of `state`."""
        return self._read(state, state.marks.high).state()

    def _store(self, manifest: Manifest, identities: Identities) -> None:
        self._store_in(self._files.place.directory, manifest, self._offset, identities.state())

    def _store_in(
        self, directory: str, manifest: Manifest, offset: int, state: IdentityState
    ) -> None:
        epoch = manifest.epoch
        snapshot = _Snapshot(epoch.number, epoch.id, offset, state)
        place = self._files.place
        for suffix in SUFFIXES:
            path = os.path.join(directory, f"{epoch.number:010d}{suffix}")
            unique, reserve = str(place.clock.new_id()), place.reserve
            checked.store(place.io, path, KIND, snapshot, unique=unique, reserve=reserve)

    def _read(self, state: State, end: int) -> Identities:
        self._load(state)
        assert self._identities is not None
        if self._offset < end:
            # Also below the low-water mark: trimmed records are still recognised.
            start = max(self._offset, state.manifest.segments[0].base)
            for file, frame in self._files.frames(state, start, end):
                for append in _appends(frame, file):
                    if append.base >= self._offset:
                        _cache(self._identities, append)
            self._offset = end
        return self._identities

    def _load(self, state: State) -> bool:
        epoch = state.manifest.epoch.id
        if self._identities is not None and self._epoch == epoch:
            return False
        found = find_snapshots(self._files, state)
        self._identities, self._offset = _newest(self._files, state, found)
        self._epoch = epoch
        return bool(found.damages)


class Snapshots(NamedTuple):
    """The readable snapshots of a partition's history, and the damage found in others."""

    #: Each with the offset up to which it is complete.
    sound: list[tuple[int, IdentityState]]
    damages: list[CorruptError]


def find_snapshots(files: PartitionFiles, state: State) -> Snapshots:
    """Return the stored snapshots; of each pair of copies, the newest must be intact."""
    place = files.place
    found = Snapshots([], [])
    names = place.io.list(place.directory)
    for suffix in SUFFIXES:
        is_newest = True
        for epoch in reversed(epochs_in(names, suffix)):
            path = place.path(f"{epoch:010d}{suffix}")
            try:
                sound = _load(files, state, path)
            except CorruptError as error:
                if is_newest:
                    found.damages.append(error)
            else:
                if sound is None:
                    continue
                found.sound.append(sound)
            is_newest = False
        if is_newest:
            path = place.path(f"{state.manifest.epoch.number:010d}{suffix}")
            found.damages.append(CorruptError("identities are missing", file=path, position=0))
    return found


def _is_outdated(found: Snapshots, oldest: int) -> bool:
    """Whether the snapshots hold no identities, and records after them have been trimmed.

    A trim stores no identities if the manifest refers to none.
    """
    return bool(found.sound) and all(
        end < oldest and not kept.producers and not kept.keys for end, kept in found.sound
    )


def findings(files: PartitionFiles, state: State) -> list[ProofFinding]:
    """Return the damage in the identities of a partition."""
    if not state.manifest.has_identities:
        return []
    found = find_snapshots(files, state)
    reasons = [str(error) for error in found.damages]
    try:
        _newest(files, state, found)
    except CorruptError as error:
        reasons.append(str(error))
    return [ProofFinding(state.marks.low, reason) for reason in reasons]


def _load(files: PartitionFiles, state: State, path: str) -> tuple[int, IdentityState] | None:
    """Return a snapshot; None if its epoch is not in this history."""
    epochs = state.manifest.epochs
    try:
        snapshot = checked.load(files.place.io, path, KIND, _Snapshot)
    except FileNotFoundError:
        return None  # Removed meanwhile, with the topic.
    number = next((at for at, each in enumerate(epochs) if each.id == snapshot.epoch_id), None)
    if number is None:
        if any(os.path.basename(path).startswith(f"{each.number:010d}.") for each in epochs):
            raise CorruptError("these identities are of another history", file=path, position=0)
        return None
    # A fenced writer may have stored offsets beyond its own epoch.
    following = epochs[number + 1 : number + 2]
    end = min(snapshot.offset, state.marks.high, *(each.start for each in following))
    return end, snapshot.state


def _newest(files: PartitionFiles, state: State, found: Snapshots) -> tuple[Identities, int]:
    """Return the newest snapshot that the frames continue, and up to where it is complete.

    Without one: empty identities, if the frames hold everything that could still be
    recognised. CorruptError if they do not.
    """
    segments = state.manifest.segments
    lost = [each for each in segments if each.is_columnar and not each.keeps_terms]
    first = max(segments[0].base, *(each.end or 0 for each in lost)) if lost else segments[0].base
    for end, kept in sorted(found.sound, key=lambda each: each[0], reverse=True):
        if end >= first:
            return Identities.of(kept, end), end
    if first == 0:
        return Identities(), 0
    # Everything older than this has expired.
    aged = offset_at(files, state.last_us - IDENTITY_AGE_S * 1_000_000)
    if aged > max(first, state.marks.low):
        return Identities(), aged
    reason = str(found.damages[0]) if found.damages else "they are older than the oldest record"
    raise CorruptError(
        "it is unknown which writes are stored already, restore the identities from a copy",
        file=files.place.path(f"{state.manifest.epoch.number:010d}{SUFFIXES[0]}"),
        position=0,
        reason=reason,
    )


def _appends(frame: Frame, file: str) -> list[AppendIdentity]:
    try:
        return appends_in(frame)
    except (ValueError, msgspec.MsgspecError) as error:
        raise CorruptError(
            "this frame cannot be read", file=file, position=frame.position, reason=str(error)
        ) from error


def _before(state: IdentityState, end: int) -> IdentityState:
    """Return the identities that belong to records before `end`."""
    producers = []
    for tenant, name, _, originals in state.producers:
        kept = [each for each in originals if each[1] < end]
        if kept:
            producers.append((tenant, name, kept[-1][2], kept))
    return IdentityState(producers, [each for each in state.keys if each[2] + each[4] <= end])


def _cache(identities: Identities, append: AppendIdentity) -> None:
    base, count, timestamp_us = append.base, append.records, append.timestamp_us
    tenant = None if append.tenant is None else Tenant(append.tenant)
    if append.idempotency_key is not None:
        original = Original(Offset(base), timestamp_us, count)
        identities.add_key(tenant, append.idempotency_key, original)
    elif append.producer is not None:
        first = append.sequence or 0
        numbers: Iterable[int] = append.sequences or range(first, first + count)
        if is_lane(append.producer):
            base, numbers = base + count - 1, (first + count - 1,)
        for offset, number in enumerate(numbers, base):
            identities.add_sequence(
                tenant, append.producer, number, Original(Offset(offset), timestamp_us)
            )
