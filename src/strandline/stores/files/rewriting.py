"""A sealed segment written again, to a file that the manifest does not name yet."""

from strandline.stores.files.manifest import Manifest, StoredSegment
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.place import Place
from strandline.stores.files.segment import FRAMES_AT
from strandline.stores.files.succession import make_segment
from strandline.stores.files.syncing import failing


def begin_rewrite(store: PartitionWriter, old: StoredSegment) -> tuple[Manifest, StoredSegment]:
    """Return the manifest, and a segment in place of `old` with a number of its own."""
    with failing(store.files), store.held() as manifest:
        number = manifest.next_number
        store.keep_identities()
        store.change(next_number=number + 1)
    return manifest, StoredSegment(manifest.epoch.number, number, old.base)


def write_segment(place: Place, manifest: Manifest, fresh: StoredSegment, content: bytes) -> int:
    """Write the file of a segment, durable, with nothing after its frames; return its length."""
    header = place.identity(manifest, fresh).header(fresh.base)
    file = make_segment(place.io, place.segment_path(fresh), header + content)
    end = FRAMES_AT + len(content)
    place.io.truncate(file.fd, end)
    place.io.sync(file.fd)
    file.close()
    return end
