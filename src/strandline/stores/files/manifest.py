"""The manifest of a partition: the parts that rarely change, in a small file replaced whole."""

from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec

from strandline.io import Io
from strandline.stores.disk_reserve import DiskReserve
from strandline.stores.files import checked
from strandline.values import CorruptError, Epoch, Offset

KIND = "manifest"
MANIFEST = ".manifest"
TAIL = ".tail"


LockIdentity = tuple[int, int, int]
"""Identifies a lock file. It is never written to, so its time is that of its creation."""


class StoredEpoch(msgspec.Struct, frozen=True):
    """An epoch, as it is stored."""

    number: int
    id: UUID
    start: int


class StoredSegment(msgspec.Struct, frozen=True):
    """A segment file and the run of records in it. The last one has no end yet."""

    #: The epoch whose identity its frames carry, and its number within that epoch.
    epoch: int
    number: int
    base: int
    #: One past its last offset, and where the last frame ends; None while it is written to.
    end: int | None = None
    position: int | None = None
    first_us: int = 0
    last_us: int = 0
    #: The size of its records, as counted against limits.
    size_bytes: int = 0
    #: Whether its runs of rows were rewritten as columns.
    is_columnar: bool = False
    #: Whether the rewrite kept the appends' identities. Rows always have them.
    keeps_terms: bool = False

    @property
    def name(self) -> str:
        """Return the name of its file."""
        return f"{self.epoch:010d}-{self.number:010d}.segment"


class Manifest(msgspec.Struct, frozen=True):
    """Everything about a partition except its end."""

    log_id: UUID
    topic_id: UUID
    partition: int
    #: Rises by one with each change.
    generation: int
    epochs: tuple[StoredEpoch, ...]
    segments: tuple[StoredSegment, ...]
    low: int
    #: The size of the records below `low` that the first segment still holds.
    trimmed_bytes: int
    #: Device, inode and time of the lock file: a writer that finds another one begins a new epoch.
    lock: LockIdentity
    #: The number of the next segment of this epoch.
    next_number: int
    #: Whether a producer or an idempotency key was ever given here.
    has_identities: bool = False
    #: In a topic with a proof: the chain's value before the oldest record
    #: that is stored here, if its offset is not 0.
    anchor: bytes | None = None
    #: The oldest offset that is stored here, if older ones were evicted; else 0.
    local: int = 0

    @property
    def epoch(self) -> StoredEpoch:
        """The current one."""
        return self.epochs[-1]

    @property
    def active(self) -> StoredSegment:
        """The segment that is written to."""
        return self.segments[-1]

    @property
    def tail(self) -> str:
        """The name of the current epoch's tail file."""
        return tail_name(self.epoch.number)

    def lineage(self) -> list[Epoch]:
        """Return the epochs in the form that readers get."""
        return [Epoch(each.number, each.id, Offset(each.start)) for each in self.epochs]

    def epoch_id(self, number: int) -> UUID:
        """Return the id of an epoch."""
        for epoch in self.epochs:
            if epoch.number == number:
                return epoch.id
        raise KeyError(number)


def tail_name(epoch: int) -> str:
    """Return the name of an epoch's tail file."""
    return f"{epoch:010d}{TAIL}"


def manifest_name(epoch: int) -> str:
    """Return the name of an epoch's manifest."""
    return f"{epoch:010d}{MANIFEST}"


def epochs_in(names: Sequence[str], suffix: str) -> list[int]:
    """Return the epochs that have a file with `suffix`, rising."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def load_manifest(io: Io, path: str, log_id: UUID, topic_id: UUID, partition: int) -> Manifest:
    """Return the manifest at `path`; CorruptError if it is not this partition's."""
    manifest = checked.load(io, path, KIND, Manifest)
    if (manifest.log_id, manifest.topic_id, manifest.partition) != (log_id, topic_id, partition):
        raise CorruptError("this manifest belongs to another partition", file=path, position=0)
    if not manifest.epochs or not manifest.segments:
        raise CorruptError("this manifest names no segment", file=path, position=0)
    return manifest


def store_manifest(
    io: Io,
    path: str,
    manifest: Manifest,
    unique: str,
    check: Callable[[], None],
    *,
    reserve: DiskReserve | None = None,
) -> None:
    """Write the manifest to `path`, durably and atomically, and sync its directory.

    `check` raises if the directory was replaced by another one meanwhile.
    """
    checked.store(io, path, KIND, manifest, unique=unique, check=check, reserve=reserve)
