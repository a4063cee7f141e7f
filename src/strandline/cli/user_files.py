"""Files that a user names on the command line, as Python and Arrow read and write them."""

import contextlib
import io as streams
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

from strandline.cli.screen import output
from strandline.clock import SystemClock
from strandline.io import SystemIo, real_parent, real_path
from strandline.values import InvalidError, UnavailableError
from strandline.values.arguments import check_path

STANDARD = "-"
"""Stands for standard input or output."""


LINE_BYTES_MAX = 64 * 1024 * 1024
"""How long a line of a file may be: more than the JSON of the largest record takes."""


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; InvalidError for one that is too long to be a record."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise InvalidError(
                "this line is too long for a record", line=number, bytes_max=LINE_BYTES_MAX
            )
        yield line


class _Reading(streams.RawIOBase):
    """A file from its beginning, for reading and seeking."""

    def __init__(self, io: SystemIo, fd: int) -> None:
        self._io, self._fd, self._at = io, fd, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = self._io.pread(self._fd, len(view), self._at)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = (0, self._at, self._io.size(self._fd))[whence]
        self._at = origin + offset
        return self._at

    def tell(self) -> int:
        return self._at


class _Writing(streams.RawIOBase):
    """A new file, written from its beginning to its end."""

    def __init__(self, io: SystemIo, fd: int) -> None:
        self._io, self._fd, self._at = io, fd, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._io.pwrite(self._fd, view, self._at)
        self._at += len(view)
        return len(view)

    def tell(self) -> int:
        return self._at


@contextlib.contextmanager
def reading(path: str) -> Iterator[IO[bytes]]:
    """Open a file for reading; `-` is standard input."""
    if path == STANDARD:
        if sys.stdin is None:
            raise InvalidError("standard input is closed, name a file")
        yield sys.stdin.buffer
        return
    io = SystemIo()
    # A user's own file may well be a link.
    try:
        fd = io.open(real_path(check_path("file", path)), "read")
    except OSError as error:
        raise InvalidError("this file cannot be read", file=path, reason=error.strerror) from error
    try:
        if io.stat(fd).is_directory:
            raise InvalidError("this is a directory, name a file", file=path)
        yield streams.BufferedReader(_Reading(io, fd))
    finally:
        io.close(fd)


@contextlib.contextmanager
def writing(path: str) -> Iterator[IO[bytes]]:
    """Open a new file; `-` is standard output.

    It appears under its name once all of it is written. A file that exists is not replaced.
    """
    if path == STANDARD:
        with output() as stream:
            yield stream.buffer
        return
    path = check_path("file", path)
    io = SystemIo()
    if io.exists(path):
        raise InvalidError("this file exists, choose another or remove it", file=path)
    real = real_parent(path)
    temporary = f"{real}.{SystemClock().new_id()}.tmp"
    try:
        fd = io.open(temporary, "create_new")
    except OSError as error:
        raise InvalidError("this file cannot be made", file=path, reason=error.strerror) from error
    try:
        try:
            buffered = streams.BufferedWriter(_Writing(io, fd))
            yield buffered
            buffered.flush()
            io.sync(fd)
        finally:
            io.close(fd)
        io.replace(temporary, real)
        io.sync_directory(os.path.dirname(real))
    except BaseException as error:
        with contextlib.suppress(OSError):
            io.unlink(temporary)
        if isinstance(error, OSError):
            raise UnavailableError(
                "this file cannot be written", file=path, reason=error.strerror
            ) from error
        raise
