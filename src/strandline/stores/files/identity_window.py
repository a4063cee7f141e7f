"""The writes that a partition can recognise, read from its frames and kept in a snapshot."""

import os
from collections.abc import Iterable
from uuid import UUID

import msgspec

from strandline.log.identities import Identities, IdentityState, Original
from strandline.stores.files import checked
from strandline.stores.files.frame import Frame, FrameTerms, split_terms
from strandline.stores.files.manifest import Manifest, epochs_in
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.state import State
from strandline.values import CorruptError, Offset, Tenant

KIND = "identities"
SUFFIX = ".identities"


class _Snapshot(msgspec.Struct, frozen=True):
    """Everything that could be recognised at one offset."""

    epoch: int
    epoch_id: UUID
    offset: int
    state: IdentityState


class IdentityWindow:
    """Owned by whoever holds the partition's lock."""

    def __init__(self, files: PartitionFiles) -> None:
        self._files = files
        #: Whether anybody has asked for it yet.
        self.is_used = False
        self._identities: Identities | None = None
        self._offset = 0
        self._epoch: UUID | None = None

    def up_to_date(self) -> Identities:
        """Return the identities of every record before the drain that runs."""
        self.is_used = True
        state = self._files.look()
        assert state is not None
        return self._read(state, state.marks.high)

    def begin(self, manifest: Manifest, offset: int) -> None:
        """Begin with nothing to recognise before `offset`."""
        self.is_used = True
        self._identities, self._offset = Identities(), offset
        self._epoch = manifest.epoch.id
        self._store(manifest, self._identities)

    def wrote(self, start: int, end: int) -> None:
        """A drain has written [start, end), and has remembered its own writes itself."""
        if self._offset == start:
            self._offset = end

    def forget(self) -> None:
        """Read everything anew when it is needed: what was remembered may not be stored."""
        self._identities = None

    def store(self, manifest: Manifest) -> None:
        """Keep what can be recognised now in a file, so that older frames may go."""
        self._store(manifest, self.up_to_date())

    def store_copy(self, state: State, manifest: Manifest, directory: str, end: int) -> None:
        """Keep in another directory what a copy that ends at `end` can recognise."""
        known = self._read(state, max(end, state.local)).state()
        self._store_in(directory, manifest, end, _before(known, end))

    def _store(self, manifest: Manifest, identities: Identities) -> None:
        self._store_in(self._files.place.directory, manifest, self._offset, identities.state())

    def _store_in(
        self, directory: str, manifest: Manifest, offset: int, state: IdentityState
    ) -> None:
        epoch = manifest.epoch
        snapshot = _Snapshot(epoch.number, epoch.id, offset, state)
        place = self._files.place
        path = os.path.join(directory, f"{epoch.number:010d}{SUFFIX}")
        checked.store(place.io, path, KIND, snapshot, unique=str(place.clock.new_id()))

    def _read(self, state: State, end: int) -> Identities:
        epoch = state.manifest.epoch.id
        if self._identities is None or self._epoch != epoch:
            self._identities, self._offset = self._load(state)
            self._epoch = epoch
        if self._offset < end:
            start = max(self._offset, state.local)
            for _, frame in self._files.frames(state, start, end):
                terms, _ = split_terms(frame)
                if terms is not None and frame.base >= self._offset:
                    _remember(self._identities, terms, frame)
            self._offset = end
        return self._identities

    def _load(self, state: State) -> tuple[Identities, int]:
        """Return the newest snapshot that belongs to this history, or nothing."""
        place = self._files.place
        lineage = {each.id: number for number, each in enumerate(state.manifest.epochs)}
        for epoch in reversed(epochs_in(place.io.list(place.directory), SUFFIX)):
            path = place.path(f"{epoch:010d}{SUFFIX}")
            try:
                snapshot = checked.load(place.io, path, KIND, _Snapshot)
            except (FileNotFoundError, CorruptError):
                continue
            number = lineage.get(snapshot.epoch_id)
            if number is None:
                continue
            # A writer that was robbed may have kept what is not in its own epoch.
            following = state.manifest.epochs[number + 1 : number + 2]
            end = min(snapshot.offset, state.marks.high, *(each.start for each in following))
            return Identities.of(snapshot.state, end), end
        return Identities(), 0


def _before(state: IdentityState, end: int) -> IdentityState:
    """Return what of the identities belongs to records before `end`, all of them."""
    producers = []
    for tenant, name, _, originals in state.producers:
        kept = [each for each in originals if each[1] < end]
        if kept:
            producers.append((tenant, name, kept[-1][2], kept))
    return IdentityState(producers, [each for each in state.keys if each[2] + each[4] <= end])


def _remember(identities: Identities, terms: FrameTerms, frame: Frame) -> None:
    base, count, timestamp_us = frame.base, frame.records, frame.timestamp_us
    tenant = None if terms.tenant is None else Tenant(terms.tenant)
    if terms.idempotency_key is not None:
        original = Original(Offset(base), timestamp_us, count)
        identities.add_key(tenant, terms.idempotency_key, original)
    elif terms.producer is not None:
        first = terms.sequence or 0
        numbers: Iterable[int] = terms.sequences or range(first, first + count)
        for offset, number in enumerate(numbers, base):
            identities.add_sequence(
                tenant, terms.producer, number, Original(Offset(offset), timestamp_us)
            )
