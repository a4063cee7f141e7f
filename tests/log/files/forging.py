"""Rewriting the history of a file log as an attacker would who knows the format.

Every checksum is right afterwards, and so are the tail and the manifest.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.files import FileStore
from strandline.stores.files.entries import entries_of
from strandline.stores.files.frame import (
    HAS_TERMS,
    LAG_UNKNOWN,
    Frame,
    encode_frame,
    encode_terms,
    split_terms,
)
from strandline.stores.files.manifest import Manifest, manifest_name, store_manifest
from strandline.stores.files.tail import (
    DURABLE_AT,
    TAIL_BYTES,
    pack_durable,
    pack_end,
    unpack,
)


class Forger:
    """Holds the frames of the last segment of `orders`, partition 0, of a log that is closed."""

    def __init__(self, path: Path) -> None:
        self._io = SystemIo()
        store = FileStore(str(path), mode="read")
        with Log(store):
            topic = store.find_topic(None, "orders")
            assert topic is not None
            files = topic.partitions[0]
            self.place = files.place
            state = files.look()
            assert state is not None
            self.manifest: Manifest = state.manifest
            base, high = state.manifest.active.base, state.marks.high
            self.frames: list[Frame] = [frame for _, frame in files.frames(state, base, high)]

    def write(self, frames: Sequence[Frame], *, with_chain: bool = False) -> None:
        """Put these in place of the frames, with offsets that follow on each other.

        With the chain computed again if `with_chain`.
        """
        identity = self.place.identity(self.manifest, self.manifest.active)
        content, crc, base = identity.header(self.manifest.active.base), 0, self.frames[0].base
        value = self._value_before()
        for frame in frames:
            moved = frame._replace(base=base)
            body = moved.body
            if with_chain:
                for entry in entries_of(moved, self.place.kind, ""):
                    value = self.place.chain.link_kept(value, entry)
                body = with_value(moved, value)
            about = (moved.kind, moved.flags, base, moved.records, moved.timestamp_us, LAG_UNKNOWN)
            chunk, crc = encode_frame(identity.seed, crc, about, body)
            content += chunk
            base = moved.stop
        self._put(content, base, crc)

    def store_manifest(self, **fields: object) -> None:
        """Put other fields into the manifest."""
        manifest = msgspec.structs.replace(self.manifest, **fields)
        path = self.place.path(manifest_name(manifest.epoch.number))
        store_manifest(self._io, path, manifest, "forged", lambda: None)

    def _value_before(self) -> bytes:
        assert self.frames[0].base == 0
        return self.place.chain.origin

    def _put(self, content: bytes, end: int, crc: int) -> None:
        segment = self._io.open(self.place.segment_path(self.manifest.active), "write")
        length = self._io.size(segment)
        self._io.truncate(segment, 0)
        self._io.truncate(segment, max(length, len(content)))
        self._io.pwrite(segment, content, 0)
        self._io.close(segment)
        tail = self._io.open(self.place.path(self.manifest.tail), "write")
        seed = self.place.tail_seed(self.manifest.epoch.number)
        slots = unpack(seed, self._io.pread(tail, TAIL_BYTES, 0))
        assert slots.end is not None
        assert slots.durable is not None
        told_end = slots.end._replace(position=len(content), next=end, crc=crc)
        durable = slots.durable._replace(position=len(content), next=end, crc=crc)
        self._io.pwrite(tail, pack_end(seed, told_end), 0)
        self._io.pwrite(tail, pack_durable(seed, durable), DURABLE_AT)
        self._io.close(tail)


def with_value(frame: Frame, value: bytes) -> bytes:
    """Return the body of a frame with another value of the chain in it."""
    terms, rest = split_terms(frame)
    assert frame.flags & HAS_TERMS
    assert terms is not None
    terms.chain = value
    return encode_terms(terms) + rest


def changed(frame: Frame, old: bytes, new: bytes) -> Frame:
    """Return a frame with `new` in place of `old`, which are of one length."""
    assert frame.body.count(old) == 1
    assert len(old) == len(new)
    return frame._replace(body=frame.body.replace(old, new))
