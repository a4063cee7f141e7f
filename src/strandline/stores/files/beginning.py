"""A partition that begins at an offset above 0, with identities of records trimmed elsewhere."""

from typing import Final

from strandline.log.identities import IdentityState
from strandline.log.moved import NO_IDENTITIES, check_unused
from strandline.stores.files.identity_window import IdentityWindow
from strandline.stores.files.manifest import (
    LockIdentity,
    Manifest,
    StoredEpoch,
    StoredSegment,
    manifest_name,
    store_manifest,
)
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.succession import make_segment

#: Matches no file: the first writer finds that the partition has no lock file yet.
NO_LOCK: Final[LockIdentity] = (0, 0, 0)


def begin_at(
    files: PartitionFiles, start: int, anchor: bytes | None, identities: IdentityState
) -> None:
    """Make an empty segment at `start`, and its manifest. The caller excludes other processes."""
    place = files.place
    check_unused(files.marks().high)
    manifest = Manifest(
        place.log_id,
        place.topic.id,
        place.partition,
        generation=1,
        epochs=(StoredEpoch(0, place.first_epoch_id(), 0),),
        segments=(StoredSegment(0, 1, start),),
        low=start,
        trimmed_bytes=0,
        lock=NO_LOCK,
        next_number=2,
        has_identities=identities != NO_IDENTITIES,
        anchor=anchor,
        local=start,
    )
    active = manifest.active
    header = place.identity(manifest, active).header(start)
    make_segment(place.io, place.segment_path(active), header).close()
    if manifest.has_identities:
        IdentityWindow(files).store_first(manifest, start, identities)
    path = place.path(manifest_name(0))
    store_manifest(place.io, path, manifest, str(place.clock.new_id()), lambda: None)


def recognised(files: PartitionFiles) -> IdentityState:
    """Return the identities still recognised, oldest first."""
    state = files.look()
    if state is None or not state.manifest.has_identities:
        return NO_IDENTITIES
    return IdentityWindow(files).recognised(state)
