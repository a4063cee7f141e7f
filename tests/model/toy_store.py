"""A store small enough to be obviously correct, to show that crash images find its planted bugs.

Values lie in a file `log.<n>`, one frame after the other; `head` says which n. Each
wrong store below has one of the faults that real stores have had.
"""

import zlib

from strandline.io import Io, replace_file

FOLDER = "/toy"
HEAD = f"{FOLDER}/head"


class ToyStore:
    """Keeps small values; `append` and `compact` are durable when they return."""

    def __init__(self, io: Io) -> None:
        self.io = io
        self._drafts = 0
        if not io.exists(FOLDER):
            io.mkdir(FOLDER)
        self.sync_names("/")
        self.number = self._head()
        self.values, self._end = self._load()
        self._cut()

    def append(self, value: bytes) -> None:
        frame = self.framed(value)
        fd = self.io.open(self._path(self.number), "write")
        self.io.pwrite(fd, frame, self._end)
        self.sync_content(fd)
        self.io.close(fd)
        self._end += len(frame)
        self.values.append(value)

    def compact(self) -> None:
        """Write everything into a new file, and remove the old one."""
        old = self.number
        self._write_log(old + 1)
        self.swap(old)
        self.number = old + 1

    def swap(self, old: int) -> None:
        self.replace_head(str(old + 1).encode())
        self.io.unlink(self._path(old))

    def replace_head(self, content: bytes) -> None:
        self._drafts += 1
        replace_file(self.io, HEAD, content, unique=str(self._drafts))

    def sync_content(self, fd: int) -> None:
        self.io.sync(fd)

    def sync_names(self, path: str) -> None:
        self.io.sync_directory(path)

    def framed(self, value: bytes) -> bytes:
        return bytes([len(value)]) + zlib.crc32(value).to_bytes(4, "big") + value

    def parsed(self, content: bytes, start: int) -> bytes | None:
        length = content[start]
        value = content[start + 5 : start + 5 + length]
        checksum = int.from_bytes(content[start + 1 : start + 5], "big")
        is_good = length and len(value) == length and zlib.crc32(value) == checksum
        return value if is_good else None

    def _head(self) -> int:
        for name in self.io.list(FOLDER):
            if name.endswith(".tmp"):
                self.io.unlink(f"{FOLDER}/{name}")
        if not self.io.exists(HEAD):
            self.values = []
            self._write_log(0)
            self.replace_head(b"0")
        return int(self._read(HEAD))

    def _write_log(self, number: int) -> None:
        fd = self.io.open(self._path(number), "create")
        self.io.truncate(fd, 0)
        self.io.pwrite(fd, b"".join(map(self.framed, self.values)), 0)
        self.io.sync(fd)
        self.io.close(fd)
        self.sync_names(FOLDER)

    def _load(self) -> tuple[list[bytes], int]:
        content = self._read(self._path(self.number))
        values: list[bytes] = []
        end = 0
        while end < len(content):
            value = self.parsed(content, end)
            if value is None:
                break
            values.append(value)
            end += len(self.framed(value))
        return values, end

    def _cut(self) -> None:
        """Remove everything after the last valid frame, durably, before anything is added."""
        fd = self.io.open(self._path(self.number), "write")
        self.io.truncate(fd, self._end)
        self.io.sync(fd)
        self.io.close(fd)

    def _read(self, path: str) -> bytes:
        fd = self.io.open(path, "read")
        try:
            return self.io.pread(fd, self.io.size(fd), 0)
        finally:
            self.io.close(fd)

    def _path(self, number: int) -> str:
        return f"{FOLDER}/log.{number}"


class NoSync(ToyStore):
    """Acknowledges what is not durable."""

    def sync_content(self, fd: int) -> None:
        pass


class NoDirectorySync(ToyStore):
    """Takes a synced file for a durable name."""

    def sync_names(self, path: str) -> None:
        pass


class RenameBeforeSync(ToyStore):
    """Gives the name before the content is durable."""

    def replace_head(self, content: bytes) -> None:
        self._drafts += 1
        temporary = f"{HEAD}.{self._drafts}.tmp"
        fd = self.io.open(temporary, "create_new")
        self.io.pwrite(fd, content, 0)
        self.io.replace(temporary, HEAD)
        self.io.sync(fd)
        self.io.close(fd)
        self.io.sync_directory(FOLDER)


class UnlinkFirst(ToyStore):
    """Removes the old file before the new one has taken its place."""

    def swap(self, old: int) -> None:
        self.io.unlink(self._path(old))
        self.replace_head(str(old + 1).encode())


class NoChecksum(ToyStore):
    """Believes every frame."""

    def parsed(self, content: bytes, start: int) -> bytes | None:
        length = content[start]
        return content[start + 5 : start + 5 + length] if length else None


BROKEN = [NoSync, NoDirectorySync, RenameBeforeSync, UnlinkFirst, NoChecksum]
