"""Rewrites a sealed segment to a file that the manifest does not name yet."""

from strandline.stores.files.manifest import Manifest, StoredSegment
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.place import Place
from strandline.stores.files.segment import FRAMES_AT
from strandline.stores.files.succession import make_segment
from strandline.stores.files.syncing import failing


def begin_rewrite(store: PartitionWriter, old: StoredSegment) -> tuple[Manifest, StoredSegment]:
    """Return the manifest, and a new segment, with its own number, to replace `old`."""
    with failing(store.files), store.held() as manifest:
        number = manifest.next_number
        store.keep_identities()
        store.change(next_number=number + 1)
    return manifest, StoredSegment(manifest.epoch.number, number, old.base)


def write_segment(place: Place, manifest: Manifest, fresh: StoredSegment, content: bytes) -> int:
    """Write a segment's file durably, with no space after its frames; return its length."""
    header = place.identity(manifest, fresh).header(fresh.base)
    file = make_segment(place.io, place.segment_path(fresh), header + content)
    end = FRAMES_AT + len(content)
    place.io.truncate(file.fd, end)
    place.io.sync(file.fd)
    file.close()
    return end
