"""Small files that are replaced whole: a line with kind and checksum, then JSON."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import google_crc32c
import msgspec

from strandline.io import Io, place_file, replace_file
from strandline.stores.disk_reserve import DiskReserve
from strandline.values import CorruptError, InvalidError

FORMAT = 1
"""The format version of all files of a file log. See docs/reference/file-format.md."""

_MAGIC = b"strandline"
_BYTES_MAX = 256 * 1024 * 1024
Body = TypeVar("Body", bound=msgspec.Struct)


def store(
    io: Io,
    path: str,
    kind: str,
    body: msgspec.Struct,
    *,
    unique: str,
    check: Callable[[], None] | None = None,
    reserve: DiskReserve | None = None,
) -> None:
    """Write `body` to `path`, durably and atomically; `check` as for `replace_file`.

    On a full disk, uses the space of the `reserve`.
    """
    put = partial(replace_file, io, path, _whole(kind, body), unique=unique, check=check)
    if reserve is None:
        put()
    else:
        reserve.spend(put)


def place(
    io: Io, path: str, kind: str, body: msgspec.Struct, *, unique: str, reserve: DiskReserve
) -> None:
    """Write `body` to `path` atomically; durable once its directory is synced. As `store`."""
    reserve.spend(partial(place_file, io, path, _whole(kind, body), unique=unique))


def _whole(kind: str, body: msgspec.Struct) -> bytes:
    content = msgspec.json.encode(body)
    return _first_line(kind, FORMAT, content) + content


def load(io: Io, path: str, kind: str, shape: type[Body]) -> Body:
    """Return what was stored; CorruptError if it is damaged, FileNotFoundError if it is missing.

    InvalidError if a newer version of strandline has written it.
    """
    fd = io.open(path, "read")
    try:
        stored = io.pread(fd, min(io.size(fd), _BYTES_MAX), 0)
    finally:
        io.close(fd)
    first, _, content = stored.partition(b"\n")
    _, _, rest = first.partition(b" %s " % kind.encode())
    number = rest[:-9]
    if number.isdigit():
        version = int(number)
        if first + b"\n" == _first_line(kind, version, content):
            _check_version(path, version)
            try:
                return msgspec.json.decode(content, type=shape)
            except (ValueError, RecursionError, msgspec.MsgspecError) as error:
                raise CorruptError(
                    f"this {kind} cannot be read", file=path, position=0, reason=str(error)
                ) from error
    raise CorruptError(f"this {kind} is damaged", file=path, position=0)


def _first_line(kind: str, version: int, content: bytes) -> bytes:
    head = b"%s %s %d" % (_MAGIC, kind.encode(), version)
    crc = google_crc32c.extend(google_crc32c.value(head), content)
    return b"%s %08x\n" % (head, crc)


def _check_version(path: str, version: int) -> None:
    if version > FORMAT:
        raise InvalidError(
            "this log was written by a newer version of strandline, upgrade to open it",
            file=path,
            format=version,
            format_known=FORMAT,
        )
