"""The location and identity of a partition."""

import os
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

import msgspec

from strandline.clock import Clock
from strandline.io import Io
from strandline.log.chain import Chain
from strandline.log.store import dropped
from strandline.stores.disk_reserve import DiskReserve
from strandline.stores.files import checked
from strandline.stores.files.manifest import (
    MANIFEST,
    Manifest,
    StoredSegment,
    epochs_in,
    load_manifest,
    manifest_name,
)
from strandline.stores.files.recovery import newer_segment
from strandline.stores.files.segment import SegmentIdentity, begins_with_frame, owner
from strandline.stores.files.tail import tail_seed
from strandline.values import CorruptError, Partition, Topic, ValueKind

SEGMENTS = "segments"
TOPIC = "topic"
"""The file beside the partitions that declares the topic."""

_TRIES = 100


class _Dropped(msgspec.Struct, frozen=True):
    """The part of a topic's file that its partitions need."""

    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The location and identity of a partition."""

    io: Io
    clock: Clock
    log_id: UUID
    topic: Topic
    kind: ValueKind
    partition: Partition
    directory: str
    chain: Chain
    is_proved: bool
    reserve: DiskReserve

    def path(self, name: str) -> str:
        """Return the path of a file of the partition."""
        return os.path.join(self.directory, name)

    def segment_path(self, segment: StoredSegment) -> str:
        """Return the path of a segment.

        Segments have a directory of their own, so that writing a frame does not wake readers
        before the tail is written.
        """
        return os.path.join(self.directory, SEGMENTS, segment.name)

    def is_dropped(self) -> bool:
        """Whether the topic was dropped."""
        path = os.path.join(os.path.dirname(self.directory), TOPIC)
        try:
            return checked.load(self.io, path, TOPIC, _Dropped).is_dropped
        except FileNotFoundError:
            return True

    def tail_seed(self, epoch: int) -> int:
        """Return the seed of the checksums in an epoch's tail."""
        number = self.partition.to_bytes(4, "little")
        return tail_seed(self.log_id.bytes + self.topic.id.bytes + number, epoch)

    def first_epoch_id(self) -> UUID:
        """Return the id of the epoch that every partition begins with."""
        origin = self.topic.id.bytes + self.partition.to_bytes(4, "little")
        return UUID(bytes=sha256(b"strandline epoch 0" + origin).digest()[:16], version=5)

    def identity(self, manifest: Manifest, segment: StoredSegment) -> SegmentIdentity:
        """Return the identity that a segment's frames carry."""
        return SegmentIdentity(
            self.log_id,
            self.topic.id,
            self.partition,
            segment.epoch,
            manifest.epoch_id(segment.epoch),
        )

    def load_manifest(self) -> Manifest | None:
        """Return the newest manifest; None if nothing was ever written."""
        for _ in range(_TRIES):
            try:
                epochs = self._epochs()
                if not epochs:
                    if not self._has_frames():
                        return None
                    # Another process may have begun meanwhile: first a manifest, then frames.
                    epochs = self._epochs()
                if not epochs:
                    raise CorruptError("the manifest is missing", file=self.directory, position=0)
                path = self.path(manifest_name(epochs[-1]))
                return load_manifest(self.io, path, self.log_id, self.topic.id, self.partition)
            except FileNotFoundError:
                # Replaced by a newer epoch's manifest, or the whole topic was dropped.
                if not self.io.exists(self.directory):
                    raise dropped(self.topic) from None
        raise CorruptError("the manifest comes and goes", file=self.directory, position=0)

    def check_newest(self, manifest: Manifest) -> None:
        """Raise CorruptError if the manifest is an older copy, as far as the segments show it."""
        directory = os.path.join(self.directory, SEGMENTS)
        path = newer_segment(self.io, directory, self._owner(), manifest)
        if path is not None and self.load_manifest() == manifest:
            raise CorruptError(
                "the manifest is older than this segment, restore all files of one copy",
                file=path,
                position=0,
            )

    def _owner(self) -> bytes:
        return owner(self.log_id, self.topic.id, self.partition)

    def _epochs(self) -> list[int]:
        return epochs_in(self.io.list(self.directory), MANIFEST)

    def _has_frames(self) -> bool:
        # Before its manifest exists, a segment has a header and no frame. After a power loss
        # it may hold blocks of another file.
        directory = os.path.join(self.directory, SEGMENTS)
        paths = (os.path.join(directory, name) for name in self.io.list(directory))
        return any(begins_with_frame(self.io, path, self._owner()) for path in paths)
