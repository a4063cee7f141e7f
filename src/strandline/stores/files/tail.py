"""The tail file of an epoch: the current end, the durable mark, and the next epoch.

It has three slots. Each is written by one `pwrite`, and one `pread` reads all of them; the
core stores the first in shared memory. The file is never synced: the crash of a process
leaves it intact, and after a power loss the frames hold the same information.
"""

from struct import Struct
from typing import Any, NamedTuple

import google_crc32c

from strandline.io import Io

_END = Struct("<2sHQ8sIIQQqQIIQ")
_DURABLE = Struct("<2sHIQQIqQ")
_FENCE = Struct("<2sHIQQ")
_CRC = Struct("<I")
_pack_end, _pack_crc = _END.pack, _CRC.pack
_crc = google_crc32c.extend
_MAGIC = b"\xf5T"
# Calling a named tuple's class is slow, and each look makes one.
_new: Any = tuple.__new__

DURABLE_AT = 128
# After the end, so that a reader that sees a fenced writer's end reads the fence, too.
FENCE_AT = 256
WANTED_AT = 320
TAIL_BYTES = 384
END_BYTES = 4 + _END.size
NO_FENCE = bytes(4 + _FENCE.size)

WANTED = b"\x01\0\0\0"
"""What a process writes at WANTED_AT to ask for a lock that another one keeps. See design 0121."""

DROPPED = 0xFFFFFFFF
"""Stands for a successor: the topic was dropped."""

UNSEALED = 0xFFFFFFFFFFFFFFFF
"""Stands for an end that the successor has not read yet."""

_TRIES = 50


class End(NamedTuple):
    """Where the partition ends. Written by the holder of the lock."""

    #: The manifest's generation, so that readers know when to read it again.
    generation: int
    #: The machine's boot id at the write: after a reboot, the end may be older than the frames.
    boot: bytes
    epoch: int
    segment: int
    position: int
    next: int
    last_us: int
    low: int
    #: The checksum of the last frame.
    crc: int
    pid: int
    #: The size of the records in the last segment.
    size_bytes: int


class Durable(NamedTuple):
    """A lower bound of what is durable. Written under a lock on the tail file."""

    #: Whether a sync has failed: later ones do not count.
    is_failed: bool
    segment: int
    position: int
    next: int
    crc: int
    last_us: int
    #: The size of the records in the segment before `position`.
    size_bytes: int


class Fence(NamedTuple):
    """The epoch that follows, and the end at which this one was sealed."""

    epoch: int
    next: int = UNSEALED
    position: int = UNSEALED


class Tail(NamedTuple):
    """A tail file as read; missing or damaged slots are None."""

    end: End | None
    durable: Durable | None
    fence: Fence | None


def durable_at(end: End) -> Durable:
    """Return what is durable once everything up to `end` is."""
    return Durable(
        *(False, end.segment, end.position, end.next, end.crc, end.last_us, end.size_bytes)
    )


def tail_seed(identity: bytes, epoch: int) -> int:
    """Return the seed of the checksums in an epoch's tail; `identity` is the partition's."""
    seed: int = google_crc32c.value(b"%s tail %d" % (identity, epoch))
    return seed


def pack_end(seed: int, end: End) -> bytes:
    """Return the slot at 0."""
    body = _pack_end(_MAGIC, 1, *end)
    return _pack_crc(_crc(seed, body)) + body


def pack_durable(seed: int, durable: Durable) -> bytes:
    """Return the slot at DURABLE_AT."""
    return _sealed(seed, _DURABLE.pack(_MAGIC, *durable))


def pack_fence(seed: int, fence: Fence) -> bytes:
    """Return the slot at FENCE_AT."""
    return _sealed(seed, _FENCE.pack(_MAGIC, 1, *fence))


def unpack(seed: int, stored: bytes) -> Tail:
    """Decode a tail file."""
    fence = _opened(_FENCE, seed, stored, FENCE_AT)
    return Tail(
        unpack_end(seed, stored),
        unpack_durable(seed, stored),
        None if fence is None else Fence(*fence[2:]),
    )


def unpack_end(seed: int, stored: bytes) -> End | None:
    """Decode the first slot of a tail file."""
    body = stored[_CRC.size : END_BYTES]
    if len(body) < _END.size or body[:2] != _MAGIC:
        return None
    if _CRC.unpack_from(stored)[0] != _crc(seed, body):
        return None
    end: End = _new(End, _END.unpack(body)[2:])
    return end


def unpack_durable(seed: int, stored: bytes) -> Durable | None:
    """Decode the second slot of a tail file."""
    durable = _opened(_DURABLE, seed, stored, DURABLE_AT)
    return None if durable is None else Durable(bool(durable[1]), *durable[2:])


def is_fenced(stored: bytes) -> bool:
    """Whether the third slot of a tail file is not empty."""
    return stored[FENCE_AT : FENCE_AT + len(NO_FENCE)] != NO_FENCE


def read_tail(io: Io, fd: int, seed: int) -> Tail:
    """Return a tail file's content, read again if it overlapped with a write."""
    raw = io.pread(fd, TAIL_BYTES, 0)
    tail = unpack(seed, raw)
    for _ in range(_TRIES):
        if tail.end is not None and tail.durable is not None:
            break
        again = io.pread(fd, TAIL_BYTES, 0)
        if again != raw:
            raw, tail = again, unpack(seed, again)
    return tail


def _sealed(seed: int, body: bytes) -> bytes:
    return _CRC.pack(google_crc32c.extend(seed, body)) + body


def _opened(shape: Struct, seed: int, stored: bytes, at: int) -> tuple[Any, ...] | None:
    start = at + _CRC.size
    body = stored[start : start + shape.size]
    if len(body) < shape.size or body[:2] != _MAGIC:
        return None
    if _CRC.unpack_from(stored, at)[0] != google_crc32c.extend(seed, body):
        return None
    return shape.unpack(body)
