"""Continuing the current epoch that another process began."""

from strandline.log.store import dropped
from strandline.stores.files.manifest import LockIdentity, Manifest
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.state import agrees
from strandline.stores.files.succession import OwnedEpoch
from strandline.stores.files.tail import (
    DROPPED,
    TAIL_BYTES,
    End,
    Tail,
    durable_at,
    is_fenced,
    unpack,
)
from strandline.stores.open_file import OpenFile


def adopt_epoch(files: PartitionFiles, lock: LockIdentity, boot: bytes) -> OwnedEpoch | None:
    """Return the current epoch's files; None if the holder of `lock` must begin a new epoch.

    DroppedError if the topic is gone, CorruptError if the manifest is an older copy.
    """
    place, io = files.place, files.place.io
    manifest = place.load_manifest()
    if manifest is None:
        return None
    place.check_newest(manifest)
    if manifest.lock != lock:
        return None
    try:
        tail = OpenFile(io, place.path(manifest.tail), "write")
    except FileNotFoundError:
        return None
    seed = place.tail_seed(manifest.epoch.number)
    raw = io.pread(tail.fd, TAIL_BYTES, 0)
    slots = unpack(seed, raw)
    _check_not_dropped(files, slots)
    end, durable = slots.end, slots.durable
    if (
        end is None
        or durable is None
        or durable.is_failed
        # Also if the fence cannot be read: every write would find it.
        or is_fenced(raw)
        or end.boot != boot
        or end.generation > manifest.generation
    ):
        return None
    end = _found_end(files, manifest, end)
    if end is None:
        return None
    segment = OpenFile(io, place.segment_path(manifest.active), "write")
    frames = place.identity(manifest, manifest.active).seed
    return OwnedEpoch(manifest, tail, segment, frames, end, durable)


def _found_end(files: PartitionFiles, manifest: Manifest, end: End) -> End | None:
    """Return the end after all whole frames that follow it; None if some are damaged.

    Such frames exist if a crash came before the tail was written, or if the tail is an older
    copy. An end that contradicts the manifest is ignored, and the frames are read instead.
    """
    active = manifest.active
    is_in_tail = end.segment == active.number and agrees(manifest, end)
    found = files.find_end(manifest, durable_at(end) if is_in_tail else None)
    if found.damaged_at is not None:
        return None
    return end._replace(
        generation=manifest.generation,
        segment=active.number,
        low=max(end.low, manifest.low),
        position=found.position,
        next=found.next,
        crc=found.crc,
        last_us=max(end.last_us, found.last_us),
        size_bytes=found.size_bytes,
    )


def _check_not_dropped(files: PartitionFiles, tail: Tail) -> None:
    if tail.fence is not None and tail.fence.epoch == DROPPED:
        raise dropped(files.place.topic)
