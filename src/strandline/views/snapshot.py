"""The snapshot file: states with their positions, replaced atomically.

Layout: magic, CRC-32C of the rest, length of the header, header (JSON), then the state
of each partition in the header's order. Anything that does not fit raises CorruptError.
"""

import hashlib
import struct
from collections.abc import Collection, Mapping
from os import PathLike, fspath
from os.path import basename, dirname
from typing import Any, Final
from uuid import UUID

import google_crc32c
import msgspec

from strandline.clock import Clock
from strandline.io import Io, real_parent, replace_file
from strandline.log import Log
from strandline.values import CorruptError, InvalidError, Position, Topic
from strandline.views.view import View

_MAGIC = b"slview01"
_FRONT = struct.Struct("<8sIQ")
_HASH: Final = "murmur2"
_CRC_END = len(_MAGIC) + 4
#: Few enough that the memory they are copied to stays in the processor's caches.
_PIECE_BYTES = 1 << 16


class Binding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a snapshot belongs to. It is unusable for another binding."""

    log_id: UUID
    topic_id: UUID
    partitions: int
    hash: str
    view: str
    version: int
    where: str = ""
    #: For a view with a predicate: a digest of the declared payload schema.
    declared: str = ""

    def continues(self, stored: "Binding") -> bool:
        """Whether a snapshot of `stored` is usable: only partitions may have been added."""
        is_same = msgspec.structs.replace(stored, partitions=self.partitions) == self
        return is_same and stored.partitions <= self.partitions


def binding_of(log: Log, topic: Topic, view: View[Any]) -> Binding:
    """Return the binding of this view over this topic."""
    settings = log.describe_topic(topic).settings
    declared = ""
    if view.where.strip() and settings.payload_schema is not None:
        declared = hashlib.sha256(settings.schema or b"").hexdigest()
    own = view.name, view.version, view.where, declared
    return Binding(log.id, topic.id, settings.partitions, _HASH, *own)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The metadata of one partition; its state follows the header, `size` bytes long."""

    position: str
    """A `Position` as JSON: the first offset not applied, with its epoch."""
    first: int
    quarantined: dict[int, str]
    refused: dict[int, str]
    size: int

    @property
    def end(self) -> int:
        """The first offset not applied."""
        return Position.from_json(self.position.encode()).offset


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    binding: Binding
    sections: dict[int, Section]


Stored = Mapping[int, tuple[Section, bytes]]
"""Partition to its section and its encoded state."""

_decode_header = msgspec.json.Decoder(_Header).decode


def packed(binding: Binding, stored: Stored) -> bytes:
    """Return the content of a snapshot file."""
    ordered = sorted(stored.items())
    header = msgspec.json.encode(_Header(binding, {p: section for p, (section, _) in ordered}))
    rest = struct.pack("<Q", len(header)) + header + b"".join(state for _, (_, state) in ordered)
    return _MAGIC + struct.pack("<I", google_crc32c.value(rest)) + rest


def unpacked(content: bytes, file: str) -> tuple[Binding, Stored]:
    """Return what `packed` was given; raise CorruptError for anything else."""
    if len(content) < _FRONT.size or not content.startswith(_MAGIC):
        raise CorruptError("this is not a snapshot of a view", file=file, position=0)
    _, crc, size = _FRONT.unpack_from(content)
    if _crc_of_rest(content) != crc:
        raise CorruptError("this snapshot is damaged", file=file, position=_CRC_END)
    at = _FRONT.size + size
    try:
        header = _decode_header(content[_FRONT.size : at])
        ends = {p: section.end for p, section in header.sections.items()}
    except (ValueError, msgspec.MsgspecError, InvalidError) as error:
        raise CorruptError("this snapshot is damaged", file=file, position=_FRONT.size) from error
    stored: dict[int, tuple[Section, bytes]] = {}
    for partition in ends:
        section = header.sections[partition]
        stored[partition] = section, content[at : at + section.size]
        at += section.size
    if at != len(content):
        raise CorruptError("this snapshot has another length", file=file, position=len(content))
    return header.binding, stored


def _crc_of_rest(content: bytes) -> int:
    """Return the checksum of what follows on the one in it; many megabytes are not copied."""
    crc = 0
    for at in range(_CRC_END, len(content), _PIECE_BYTES):
        crc = google_crc32c.extend(crc, content[at : at + _PIECE_BYTES])
    return crc


def read_snapshot(io: Io, path: str) -> tuple[Binding, Stored]:
    """Read a snapshot file. Raises OSError, and CorruptError as `unpacked`."""
    fd = io.open(path, "read")
    try:
        content = io.pread(fd, io.size(fd), 0)
    finally:
        io.close(fd)
    return unpacked(content, path)


def _check_no_folder(io: Io, path: str) -> None:
    """Raise InvalidError if the path is a folder, which a snapshot cannot replace."""
    try:
        is_folder = io.stat(path).is_directory
    except OSError:
        # There is no file yet, or it is inaccessible, which is a fault of the snapshot.
        return
    if is_folder:
        raise InvalidError("this is a folder, name a file for the snapshot", path=path)


class SnapshotFile:
    """The snapshot file of one view, used by one thread at a time."""

    def __init__(self, io: Io, path: str | PathLike[str], binding: Binding, clock: Clock) -> None:
        self._io = io
        self._path = real_parent(fspath(path))
        _check_no_folder(io, self._path)
        self._binding = binding
        self._clock = clock
        self.fault: BaseException | None = None
        """Why the file could not be used; reset when it is written again."""
        self.committed: Mapping[int, int] = {}
        """The last offset in the file, for each partition in it."""
        self._tidy()
        # Kept for the first assignment, which usually follows at once.
        self._held: Stored | None = self._load()
        self._note(self._held)

    def section(self, partition: int) -> tuple[Section, bytes] | None:
        """Return what is stored of the partition, if it belongs to this view."""
        if partition not in self.committed:
            return None
        if self._held is None:
            self._held = self._load()
        return self._held.get(partition)

    def release(self) -> None:
        """Release the cached content; it is read again when needed."""
        self._held = None

    def disown(self, partitions: Collection[int]) -> None:
        """Drop what is stored of these partitions; the next write omits it."""
        self.committed = {p: end for p, end in self.committed.items() if p not in partitions}

    def write(self, fresh: Stored) -> None:
        """Replace the file: with `fresh`, and other stored partitions that were not disowned.

        Raises OSError; the file is then the old one or the new one, complete.
        """
        kept = self.committed.keys() - fresh.keys()
        old = self._load() if kept else {}
        stored = {**{p: old[p] for p in kept if p in old}, **fresh}
        self._held = None
        content = packed(self._binding, stored)
        replace_file(self._io, self._path, content, unique=str(self._clock.new_id()))
        self.fault = None
        self._note(stored)

    def _tidy(self) -> None:
        """Remove what a killed writer left behind."""
        folder, name = dirname(self._path) or ".", basename(self._path)
        try:
            for entry in self._io.list(folder):
                if entry.startswith(f"{name}.") and entry.endswith(".tmp"):
                    self._io.unlink(f"{folder}/{entry}")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InvalidError("there is no such folder for snapshots", folder=folder) from error
        except OSError as error:
            self.fault = error

    def _note(self, stored: Stored) -> None:
        self.committed = {p: section.end - 1 for p, (section, _) in stored.items()}

    def _load(self) -> Stored:
        try:
            binding, stored = read_snapshot(self._io, self._path)
        except FileNotFoundError:
            return {}
        except (OSError, CorruptError) as error:
            self.fault = error
            return {}
        return stored if self._binding.continues(binding) else {}
