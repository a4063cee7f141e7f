"""The identities that a partition recognises: the last checkpoint's, and those of later frames."""

import threading
from collections.abc import Iterable
from typing import Final

from strandline.log.identities import Identities, IdentityState
from strandline.stores.fenced_head import fold
from strandline.stores.kafka.frames import NO_NAME, PartitionEnd, PlacedFrame
from strandline.stores.kafka.partition import KafkaPartition

#: No record has an offset as high as this.
_ALL: Final = 1 << 62
#: From this many identities, or bytes of frames, on they are stored in a checkpoint.
_UNSAVED_MAX: Final = 20_000
_UNSAVED_BYTES_MAX: Final = 64 * 1024 * 1024


class KafkaIdentities:
    """The identities that a partition recognises. Thread-safe, except for what it returns."""

    def __init__(self, partition: KafkaPartition) -> None:
        self._partition = partition
        #: Held while identities are read or changed.
        self.lock: Final = threading.RLock()
        self._known = Identities()
        #: The Kafka offset up to which they were read; None before the first read.
        self._upto: int | None = None
        #: The last frame that counts before that offset.
        self._name = NO_NAME
        self._resets = partition.resets
        self._unsaved = self._unsaved_bytes = 0

    @property
    def is_worth_saving(self) -> bool:
        """Whether the next process would otherwise have to read much."""
        has_some = self._unsaved > 0
        return self._unsaved >= _UNSAVED_MAX or (
            has_some and self._unsaved_bytes >= _UNSAVED_BYTES_MAX
        )

    def catch_up(self, end: PartitionEnd) -> Identities:
        """Return the identities of everything up to `end`; the caller holds the lock.

        GoneError if that end is outdated.
        """
        if self._resets != self._partition.resets:
            self._resets, self._upto = self._partition.resets, None
        if self._upto is None or end.checkpoint >= self._upto:
            self._load(end)
        assert self._upto is not None
        if end.identified >= self._upto:
            self._read(self._upto, end)
        if end.end > self._upto:
            self._upto, self._name = end.end, end.name
        return self._known

    def add(self, placed: PlacedFrame) -> None:
        """Record a frame that this process has just stored."""
        with self.lock:
            if self._upto == placed.at == placed.frame.claim:
                self._fold(placed)
                self._upto, self._name = placed.at + 1, placed.frame.name

    def state(self, end: PartitionEnd, now_us: int | None = None) -> IdentityState:
        """Return the identities up to `end` in stored form, without expired ones."""
        with self.lock:
            known = self.catch_up(end)
            if now_us is not None:
                known.expire(now_us)
            return known.state()

    def set_saved(self) -> None:
        """Record that everything was stored in a checkpoint."""
        self._unsaved = self._unsaved_bytes = 0

    def forget(self) -> None:
        """Drop the cache; it is read again when needed."""
        self._upto = None

    def _load(self, end: PartitionEnd) -> None:
        self._known, self._upto, self._name = Identities(), 0, NO_NAME
        if end.checkpoint >= 0:
            frame = self._partition.frame(end.checkpoint)
            if frame.saved is None:
                raise self._partition.damaged(end.checkpoint)
            self._known = Identities.of(frame.saved.identities, _ALL)
            self._upto, self._name = end.checkpoint + 1, frame.name
        self.set_saved()

    def _read(self, upto: int, end: PartitionEnd) -> None:
        tail = self._partition.tail_after(self._name)
        pages: Iterable[list[PlacedFrame]] = [tail or []]
        if tail is None:
            pages = self._partition.counted(upto, self._name, end.identified + 1)
        for page in pages:
            for each in page:
                if upto <= each.at < end.end:
                    self._fold(each)

    def _fold(self, placed: PlacedFrame) -> None:
        fold(self._known, placed.frame.identities)
        self._unsaved += len(placed.frame.identities)
        self._unsaved_bytes += placed.size_bytes
