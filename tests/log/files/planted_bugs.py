"""Bugs to plant in the file store, in order to see that crash images catch them."""

from typing import Any

from strandline.log import positions
from strandline.log.access import Access
from strandline.log.log import Log
from strandline.stores.files import (
    adoption,
    checked,
    frame,
    ingesting,
    recovery,
    succession,
    trimming,
)
from strandline.stores.files.identity_window import IdentityWindow
from strandline.stores.files.keys import FileKeys
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.root import Root
from strandline.stores.files.store import FileStore
from strandline.stores.files.succession import _Succession
from strandline.stores.files.syncing import Syncing
from strandline.stores.files.topics import FileTopics
from tests.planting import Bug

CRASH_BUGS = [
    Bug("durable without a sync", Syncing, "_sync", "_.sync(...)", "pass"),
    Bug(
        "a full segment is not synced before the next one begins",
        PartitionWriter,
        "roll",
        "_.make_durable()",
        "pass",
    ),
    Bug(
        "an ingested file is not synced once it has its heads",
        ingesting,
        "_fill",
        "io.sync(...)",
        "pass",
    ),
    Bug(
        "a file has frames under its new name before that is noted",
        ingesting,
        "ingest",
        "store.change(...)",
        "pass",
    ),
    Bug(
        "an ingested file is no segment until it has the first append after it",
        ingesting,
        "ingest",
        "(*kept, taken, fresh)",
        "(*kept, fresh)",
    ),
    Bug(
        "a new segment's name is not synced",
        succession,
        "_make_segment",
        "io.sync_directory(...)",
        "pass",
    ),
    Bug(
        "a small file is replaced without a sync of its directory",
        checked,
        "store",
        "put = partial(...)",
        "from tests.log.files.planted_bugs import NoNames; io = NoNames(io); _",
    ),
    Bug(
        "a small file is renamed before it is synced",
        checked,
        "store",
        "put = partial(...)",
        "from tests.log.files.planted_bugs import NoContent; io = NoContent(io); _",
    ),
    Bug(
        "a topic's directory is not synced",
        FileTopics,
        "_make",
        "self._io.sync_directory(self._root.topics)",
        "pass",
    ),
    Bug(
        "a topic is announced before its partitions are durable",
        FileTopics,
        "_make",
        "self._io.sync_directory(directory)",
        "pass",
    ),
    Bug(
        "a dropped topic comes back",
        FileTopics,
        "dropping",
        "self.store(...)",
        "pass",
    ),
    Bug(
        "the log's own directory is not synced",
        Root,
        "_make_directories",
        "self.io.sync_directory(...)",
        "pass",
    ),
    Bug(
        "after a power loss the tail is believed by writers",
        adoption,
        "adopt_epoch",
        "end.boot != boot",
        "False",
    ),
    Bug(
        "after a power loss the tail is believed by readers",
        PartitionFiles,
        "_state_of",
        "end.boot == self._io.boot_id()",
        "True",
    ),
    Bug(
        "a new epoch begins at the durable mark",
        _Succession,
        "_after_found_end",
        "found.next",
        "found.durable",
    ),
    Bug(
        "a frame is believed without its checksum",
        frame,
        "decode_frame",
        "_crc(...) != crc",
        "False",
    ),
    Bug(
        "a torn write is taken for damage",
        recovery,
        "find_end",
        "mark > expected",
        "segment.garbage_after(position, end)",
    ),
    Bug(
        "a cursor moves before its records are durable",
        Log,
        "ack",
        "_.moved(...)",
        "self._access.moved(topic, consumer, partition, tenant, 0)",
    ),
    Bug(
        "a sought cursor moves before its records are durable",
        Log,
        "seek",
        "_.moved(...)",
        "self._access.moved(topic, consumer, partition, tenant, 0)",
    ),
    Bug(
        "a position is handed out before its records are durable",
        positions,
        "position_at",
        "_.durable_before(...)",
        "store.state(topic, partition)",
    ),
    Bug(
        "a forgotten consumer comes back",
        FileKeys,
        "remove",
        "self._io.sync_directory(...)",
        "pass",
    ),
    Bug(
        "a key's value is stored without a file of its own that is whole",
        FileKeys,
        "_place",
        "checked.place(...)",
        "from tests.log.files.planted_bugs import NoContent; "
        "checked.place(NoContent(self._io), path, KIND, stored, unique='a')",
    ),
    Bug(
        "a cursor that was moved is not synced",
        FileKeys,
        "change",
        "self.sync(...)",
        "pass",
    ),
    Bug(
        "a key is listed before it is there",
        FileKeys,
        "_place",
        "self.sync(...)",
        "pass",
    ),
    Bug(
        "what lies before a cursor is looked at and not synced",
        Access,
        "durable_before",
        "self.sync(...)",
        "pass",
    ),
    Bug(
        "a flush leaves out what others have to sync",
        FileStore,
        "flush",
        "self.sync(...)",
        "pass",
    ),
    Bug(
        "a trim beyond the durable mark does not sync",
        trimming,
        "_move",
        "_.make_durable()",
        "pass",
    ),
    Bug(
        "segments are removed before the manifest lets them go",
        trimming,
        "_move",
        "store.change(...)",
        "_unlink(store, gone); _",
    ),
    Bug(
        "identities are forgotten when their frames go",
        PartitionWriter,
        "keep_identities",
        "self._window.store(...)",
        "pass",
    ),
    Bug(
        "identities are not read back",
        IdentityWindow,
        "_read",
        "append.base >= self._offset",
        "False",
    ),
    Bug(
        "a write is slots before it is in the file",
        PartitionWriter,
        "flush",
        "_.pwrite(_.segment.fd, ...)",
        "pass",
    ),
]


class NoNames:
    """An Io that forgets to sync directories."""

    def __init__(self, io: Any) -> None:
        self._io = io

    def __getattr__(self, name: str) -> Any:
        return getattr(self._io, name)

    def sync_directory(self, path: str) -> None:
        """Do nothing."""


class NoContent(NoNames):
    """An Io that syncs a file's content when it is too late."""

    def sync(self, fd: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do what is asked."""
        self._io.sync_directory(path)
