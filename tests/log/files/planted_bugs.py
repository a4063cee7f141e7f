"""Bugs to plant in the file log, in order to see that crash images catch them."""

import contextlib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from strandline.log import Log
from strandline.stores.files import adoption, checked, frame, recovery, succession, trimming
from strandline.stores.files.consuming import FileConsumers
from strandline.stores.files.cursors import Cursors
from strandline.stores.files.identity_window import IdentityWindow
from strandline.stores.files.partition import PartitionFiles
from strandline.stores.files.partition_writer import PartitionWriter
from strandline.stores.files.root import Root
from strandline.stores.files.succession import _Succession
from strandline.stores.files.syncing import Syncing
from strandline.stores.files.topics import Topics
from tests.model.planted_bugs import Bug


@dataclass(frozen=True)
class FunctionBug:
    """`new` in place of `old` in the function `name` of `module`, wherever it is used."""

    title: str
    module: ModuleType
    name: str
    old: str
    new: str

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Have the bug in the code for as long as the block runs."""
        healthy = getattr(self.module, self.name)
        source = inspect.getsource(healthy)
        assert self.old in source, f"plant this bug anew: {self.title}"
        code = compile(source.replace(self.old, self.new), inspect.getfile(healthy), "exec")
        names: dict[str, object] = {}
        exec(code, self.module.__dict__, names)  # noqa: S102 - Our own text.
        users = [
            module
            for name, module in tuple(sys.modules.items())
            if name.startswith("strandline.") and module.__dict__.get(self.name) is healthy
        ]
        for module in users:
            setattr(module, self.name, names[self.name])
        try:
            yield
        finally:
            for module in users:
                setattr(module, self.name, healthy)


CRASH_BUGS: list[Bug | FunctionBug] = [
    Bug("durable without a sync", Syncing, "_sync", "self._io.sync(segment.fd)", "pass"),
    Bug(
        "a full segment is not synced before the next one begins",
        PartitionWriter,
        "roll",
        "self.make_durable()",
        "pass",
    ),
    FunctionBug(
        "a new segment's name is not synced",
        succession,
        "make_segment",
        "io.sync_directory(os.path.dirname(path))",
        "pass",
    ),
    FunctionBug(
        "a small file is replaced without a sync of its directory",
        checked,
        "store",
        "replace_file(io,",
        "replace_file(__import__('tests.log.files.planted_bugs', fromlist=['x']).NoNames(io),",
    ),
    FunctionBug(
        "a small file is renamed before it is synced",
        checked,
        "store",
        "replace_file(io,",
        "replace_file(__import__('tests.log.files.planted_bugs', fromlist=['x']).NoContent(io),",
    ),
    Bug(
        "a topic's directory is not synced",
        Topics,
        "_make",
        "self._io.sync_directory(self._root.topics)",
        "pass",
    ),
    Bug(
        "a topic is announced before its partitions are durable",
        Topics,
        "_make",
        "self._io.sync_directory(directory)",
        "pass",
    ),
    Bug(
        "a dropped topic comes back",
        Topics,
        "drop",
        "self._store(entry, is_dropped=True)",
        "pass",
    ),
    Bug(
        "the log's own directory is not synced",
        Root,
        "_make_directories",
        "self.io.sync_directory(parent)",
        "pass",
    ),
    FunctionBug(
        "after a power loss the tail is believed by writers",
        adoption,
        "adopt_epoch",
        "or end.boot != boot",
        "",
    ),
    Bug(
        "after a power loss the tail is believed by readers",
        PartitionFiles,
        "_state_of",
        "end is None or end.boot != self._io.boot_id()",
        "end is None",
    ),
    Bug(
        "a new epoch begins at the durable mark",
        _Succession,
        "_after_sync",
        "next_, position, last_us = found.next, found.position, found.last_us",
        "next_, position, last_us = found.durable, found.position, found.last_us",
    ),
    FunctionBug(
        "a frame is believed without its checksum",
        frame,
        "decode_frame",
        "if _crc(seed, checked) != crc:",
        "if False:",
    ),
    FunctionBug(
        "a torn write is taken for damage",
        recovery,
        "find_end",
        "if mark > expected:",
        "if segment.garbage_after(position, end):",
    ),
    Bug(
        "a cursor moves before its records are durable",
        FileConsumers,
        "ack",
        "self._make_durable_before(entry, files, end)",
        "pass",
    ),
    Bug(
        "a sought cursor moves before its records are durable",
        FileConsumers,
        "seek",
        "self._make_durable_before(entry, files, offset)",
        "pass",
    ),
    Bug(
        "a position is handed out before its records are durable",
        Log,
        "position",
        "self._make_durable(entry, files)",
        "pass",
    ),
    Bug(
        "a forgotten consumer comes back",
        Cursors,
        "forget",
        "self._io.sync_directory(os.path.dirname(path))",
        "pass",
    ),
    FunctionBug(
        "a trim beyond the durable mark does not sync",
        trimming,
        "_move",
        "store.make_durable()",
        "pass",
    ),
    FunctionBug(
        "segments are removed before the manifest lets them go",
        trimming,
        "_move",
        "store.change(low=low, segments=kept,",
        "[files.place.io.unlink(files.place.segment_path(each)) for each in gone]\n"
        "    store.change(low=low, segments=kept,",
    ),
    Bug(
        "identities are forgotten when their frames go",
        PartitionWriter,
        "keep_identities",
        "self._window.store(self.manifest)",
        "pass",
    ),
    Bug(
        "identities are not read back",
        IdentityWindow,
        "_read",
        "if terms is not None and frame.base >= self._offset:",
        "if False:",
    ),
    Bug(
        "a write is told before it is in the file",
        PartitionWriter,
        "_write",
        "io.pwrite(tenure.segment.fd, content, at)",
        "pass",
    ),
]


class NoNames:
    """An Io that forgets to sync directories."""

    def __init__(self, io: object) -> None:
        self._io = io

    def __getattr__(self, name: str) -> object:
        return getattr(self._io, name)

    def sync_directory(self, path: str) -> None:
        """Do nothing."""


class NoContent(NoNames):
    """An Io that syncs a file's content when it is too late."""

    def sync(self, fd: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do what is asked."""
        self._io.sync_directory(path)  # type: ignore[attr-defined]
