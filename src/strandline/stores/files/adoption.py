"""Going on in the present epoch, in the place of another process."""

from strandline.stores.files.entries import entries_of
from strandline.stores.files.manifest import LockIdentity, Manifest
from strandline.stores.files.open_file import OpenFile
from strandline.stores.files.partition import DroppedError, PartitionFiles
from strandline.stores.files.segment import FRAMES_AT
from strandline.stores.files.succession import Tenure
from strandline.stores.files.tail import DROPPED, TAIL_BYTES, End, Tail, unpack


def adopt_epoch(files: PartitionFiles, lock: LockIdentity, boot: bytes) -> Tenure | None:
    """Return the present epoch's files; None if whoever holds `lock` has to begin another.

    DroppedError if the topic is gone.
    """
    place, io = files.place, files.place.io
    manifest = place.load_manifest()
    if manifest is None or manifest.lock != lock:
        return None
    try:
        tail = OpenFile(io, place.path(manifest.tail), "write")
    except FileNotFoundError:
        return None
    seed = place.tail_seed(manifest.epoch.number)
    told = unpack(seed, io.pread(tail.fd, TAIL_BYTES, 0))
    _check_not_dropped(files, told)
    end, durable = told.end, told.durable
    if (
        end is None
        or durable is None
        or durable.is_failed
        or told.fence is not None
        or end.boot != boot
        or end.generation > manifest.generation
    ):
        return None
    end = _found_end(files, manifest, end)
    segment = OpenFile(io, place.segment_path(manifest.active), "write")
    frames = place.identity(manifest, manifest.active).seed
    return Tenure(manifest, tail, segment, frames, end, durable)


def _found_end(files: PartitionFiles, manifest: Manifest, end: End) -> End:
    """Return the end with what somebody left behind who died before the tail was written."""
    active = manifest.active
    if end.segment != active.number:
        end = end._replace(position=FRAMES_AT, crc=0, size_bytes=0)
    end = end._replace(
        generation=manifest.generation,
        segment=active.number,
        low=max(end.low, manifest.low),
    )
    segment = files.segment(manifest, active)
    for frame in segment.scan(end.position, end.next, end.crc):
        entries = entries_of(frame, files.place.kind, segment.path)
        end = end._replace(
            position=frame.end,
            next=frame.stop,
            crc=frame.crc,
            last_us=frame.timestamp_us,
            size_bytes=end.size_bytes + sum(entry.size_bytes for entry in entries),
        )
    return end


def _check_not_dropped(files: PartitionFiles, tail: Tail) -> None:
    if tail.fence is not None and tail.fence.epoch == DROPPED:
        raise DroppedError("this topic was dropped", topic=files.place.topic.name, near=[])
