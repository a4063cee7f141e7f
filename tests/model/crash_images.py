"""What a power loss may leave of a `Disk`, in a hostile but legal file system.

- A write, a truncation or a preallocation is durable only after a later sync of its file.
  Until then it may be there or not, independently of the others, and torn: at sectors, the
  latest one at any byte. The length may be any that the file had since its last sync; what
  was never written reads as zeros, or as stale bytes.
- A new, changed or removed name is durable only after a later sync of its directory. Until
  then it may be there or not, independently of the others. A rename is atomic.
- Syncing a file makes its content durable, but not its name.

A kill keeps everything, except that a write may be cut: see `after_kill_within`.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TypeAlias

from tests.model.disk import (
    ROOT,
    ContentChange,
    Disk,
    Entry,
    Link,
    Move,
    NameChange,
    Noted,
    Resize,
    Sync,
    SyncDirectory,
    Tree,
    Unlink,
    Write,
    put,
    rename,
    resize,
)

SECTOR = 512
PAGE = 4096
WORD = 8
#: The suffix of files that processes map as shared memory.
SHARED = ".tail"
#: How many possible contents of one file are sampled from.
POOL = 24
#: How many of the latest changes are left out one by one, where there are too many for all.
_ALONE = 8

Key: TypeAlias = "tuple[tuple[str, bytes | None], ...]"
Directories: TypeAlias = "dict[int, dict[str, int]]"


@dataclass(frozen=True, slots=True)
class Image:
    """One state of the medium after a crash."""

    tree: Tree
    boot: int
    age: int
    key: Key
    """Every path with its content: equal images have equal keys."""

    def disk(self) -> Disk:
        """Return a fresh disk that holds this image: nothing unsynced, nothing locked."""
        return Disk(self.tree, boot=self.boot, age=self.age)


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """A moment of a workload: after the first `entries` entries of its journal."""

    entries: int
    facts: Sequence[object]
    """What the workload had noted by then, oldest first. Not changed any more."""
    state: "CrashState"


@dataclass(slots=True)
class _File:
    synced: bytes
    pending: list[ContentChange] = field(default_factory=list)
    #: Possible contents after a crash; computed when first needed.
    pool: "list[bytes] | None" = None
    is_whole: bool = False


@dataclass(slots=True)
class _Name:
    change: NameChange
    unsynced: set[int]


class CrashState:
    """What is durable at one moment of a journal, and which changes are pending."""

    def __init__(self, disk: Disk, *, pool: int = POOL) -> None:
        self._boot = disk.boot
        self._age = disk.age - len(disk.journal)
        self._pool = pool
        self._files = {inode: _File(content) for inode, content in disk.tree.files.items()}
        self._directories: Directories = {
            inode: dict(names) for inode, names in disk.tree.directories.items()
        }
        self._names: list[_Name] = []
        self._latest: Entry | None = None

    def apply(self, entry: Entry) -> None:
        """Apply the next entry of the journal."""
        self._latest = entry
        self._age += 1
        match entry:
            case Write(inode=inode) | Resize(inode=inode):
                file = self._files[inode]
                file.pending.append(entry)
                file.pool = None
            case Sync(inode=inode):
                file = self._files[inode]
                file.synced, file.pending, file.pool = _kept(file), [], None
            case SyncDirectory(directory=directory):
                for name in self._names:
                    name.unsynced.discard(directory)
                self._settle_names()
            case Move():
                both = {entry.source_directory, entry.directory}
                self._names.append(_Name(entry, both))
            case Link() | Unlink():
                if isinstance(entry, Link):
                    self._note_inode(entry)
                self._names.append(_Name(entry, {entry.directory}))
            case Noted():
                pass

    def after_kill(self) -> Image:
        """Return what a kill of the process leaves: everything, on the same boot."""
        paths, directories = self._names_kept([True] * len(self._names))
        files = {inode: _kept(self._files[inode]) for _, inode in paths if inode in self._files}
        return self._image(paths, directories, files, self._boot)

    def after_kill_within(self, chance: random.Random) -> Image | None:
        """Return what a kill in the middle of the latest write leaves; None if it has no middle.

        A kill takes effect between two pages of a write, and in what may be stored in shared
        memory between any two words, which need not be stored in order.
        """
        write = self._latest
        if not isinstance(write, Write):
            return None
        file = self._files[write.inode]
        borders = range(PAGE - write.offset % PAGE, len(write.content), PAGE)
        part: bytes | memoryview
        if self._is_shared(write):
            part = self._torn(file, write, chance)
        elif borders:
            part = write.content[: chance.choice(borders)]
        else:
            return None
        file.pending[-1] = Write(write.inode, write.offset, part)
        try:
            return self.after_kill()
        finally:
            file.pending[-1] = write

    def _is_shared(self, write: Write) -> bool:
        """Whether a process may have it in shared memory: the first slot of a tail."""
        if write.offset or len(write.content) > PAGE:
            return False
        paths, _ = self._names_kept([True] * len(self._names))
        return any(inode == write.inode and path.endswith(SHARED) for path, inode in paths)

    def _torn(self, file: _File, write: Write, chance: random.Random) -> bytes:
        length = len(write.content)
        before = _kept(_File(file.synced, file.pending[:-1]))[:length].ljust(length, b"\0")
        words = range(0, length, WORD)
        return b"".join(chance.choice((before, write.content))[at : at + WORD] for at in words)

    def images(self, limit: int, chance: random.Random) -> Iterator[Image]:
        """Yield the images of a power loss now: all if there are at most `limit`.

        Otherwise `limit` of them: those with every change and with none, then random ones, in
        which often a single name is lost or kept.
        """
        loose = len(self._names)
        if loose <= limit.bit_length():
            named = [
                self._names_kept(kept) for kept in itertools.product((True, False), repeat=loose)
            ]
            pools = [self._pools(paths, chance) for paths, _ in named]
            count = sum(prod(len(pool) for pool in each.values()) for each in pools)
            if count <= limit and all(self._is_whole(each) for each in pools):
                for (paths, directories), each in zip(named, pools, strict=True):
                    for chosen in itertools.product(*each.values()):
                        files = dict(zip(each, chosen, strict=True))
                        yield self._image(paths, directories, files, self._boot + 1)
                return
        yield from itertools.islice(self._sampled(chance), limit)

    def _sampled(self, chance: random.Random) -> Iterator[Image]:
        count = len(self._names)
        for kept, place in ((True, 0), (False, -1)):
            paths, directories = self._names_kept([kept] * count)
            pools = self._pools(paths, chance)
            files = {inode: pool[place] for inode, pool in pools.items()}
            yield self._image(paths, directories, files, self._boot + 1)
        while True:
            paths, directories = self._names_kept(_some_kept(count, chance))
            pools = self._pools(paths, chance)
            end = chance.choice((0, -1, None, None))
            files = {
                inode: chance.choice(pool) if end is None else pool[end]
                for inode, pool in pools.items()
            }
            yield self._image(paths, directories, files, self._boot + 1)

    def _pools(
        self, paths: Sequence[tuple[str, int]], chance: random.Random
    ) -> dict[int, list[bytes]]:
        pools = {}
        for _, inode in paths:
            file = self._files.get(inode)
            if file is None:
                continue
            if file.pool is None:
                stale = self._files[chance.choice(list(self._files))]
                file.pool, file.is_whole = contents(
                    file.synced,
                    file.pending,
                    self._pool,
                    chance,
                    # Stale bytes come from other files, whose blocks were freed.
                    b"" if stale is file else stale.synced,
                )
            pools[inode] = file.pool
        return pools

    def _is_whole(self, pools: dict[int, list[bytes]]) -> bool:
        return all(self._files[inode].is_whole for inode in pools)

    def _names_kept(self, kept: Sequence[bool]) -> tuple[list[tuple[str, int]], Directories]:
        """Return every path with its inode, and the directories that can be reached."""
        directories = {inode: dict(names) for inode, names in self._directories.items()}
        for name, is_kept in zip(self._names, kept, strict=True):
            if is_kept or not name.unsynced:
                _apply_name(directories, name.change)
        paths: list[tuple[str, int]] = []
        reached: Directories = {}
        rest = [("", ROOT)]
        while rest:
            path, inode = rest.pop()
            paths.append((path, inode))
            if inode in directories:
                names = reached[inode] = directories[inode]
                rest.extend((f"{path}/{name}", names[name]) for name in sorted(names))
        paths.sort()
        return paths, reached

    def _image(
        self,
        paths: Sequence[tuple[str, int]],
        directories: Directories,
        files: dict[int, bytes],
        boot: int,
    ) -> Image:
        key = tuple((path, files.get(inode)) for path, inode in paths)
        reached = {inode: files[inode] for _, inode in paths if inode in files}
        return Image(Tree(reached, directories), boot, self._age, key)

    def _note_inode(self, link: Link) -> None:
        if link.is_directory:
            self._directories[link.inode] = {}
        elif link.inode not in self._files:
            self._files[link.inode] = _File(b"")

    def _settle_names(self) -> None:
        """Apply permanently what is synced and follows no unsynced change in its directories."""
        left: list[_Name] = []
        waiting: set[int] = set()
        for name in self._names:
            touched = _touched(name.change)
            if name.unsynced or touched & waiting:
                left.append(name)
                waiting |= touched
            else:
                _apply_name(self._directories, name.change)
        self._names = left


def crash_points(disk: Disk, *, start: int = 0, pool: int = POOL) -> Iterator[CrashPoint]:
    """Yield the moments after each entry of the disk's journal, from entry `start` on.

    Facts that follow on each other belong to one moment. A crash state is valid until the
    next moment is requested.
    """
    state = CrashState(disk, pool=pool)
    facts: list[object] = []
    journal = list(disk.journal)
    moments = set(crash_moments(disk))
    for count, entry in enumerate(journal, 1):
        state.apply(entry)
        if isinstance(entry, Noted):
            facts.append(entry.fact)
        if count >= start and count in moments:
            yield CrashPoint(count, tuple(facts), state)


def crash_moments(disk: Disk) -> list[int]:
    """Return after how many entries of the disk's journal the points are."""
    is_noted = [isinstance(entry, Noted) for entry in (*disk.journal, None)][1:]
    return [count for count, is_followed in enumerate(is_noted, 1) if not is_followed]


def contents(
    synced: bytes,
    pending: Sequence[ContentChange],
    limit: int,
    chance: random.Random,
    stale: bytes = b"",
) -> tuple[list[bytes], bool]:
    """Return contents that a file may have after a crash, and whether these are all.

    The first has every change, the last none.
    """
    if not pending:
        return [synced], True
    lengths = _lengths(synced, pending)
    ways = [_ways(change, is_last=change is pending[-1]) for change in pending]
    everything = _built(synced, [way[0] for way in ways], None)
    found = dict.fromkeys([everything])
    is_whole = prod(map(len, ways)) * (len(lengths) + 1) <= limit
    if is_whole:
        for chosen in itertools.product(*ways):
            for length in (None, *lengths):
                found[_built(synced, chosen, length)] = None
    else:
        for index in range(len(ways))[-_ALONE:]:
            others = [None if lost == index else way[0] for lost, way in enumerate(ways)]
            found[_built(synced, others, None)] = None
        for _ in range(limit):
            found[_sample(synced, ways, lengths, chance, stale)] = None
    found.pop(synced, None)
    # Shuffled, or a limit would always leave out the same ones.
    rest = [content for content in found if content != everything]
    chance.shuffle(rest)
    first = [everything] if everything != synced else []
    return [*first, *rest[: limit - 2], synced], is_whole and len(rest) <= limit - 2


def _sample(
    synced: bytes,
    ways: "Sequence[Sequence[_Way]]",
    lengths: Sequence[int],
    chance: random.Random,
    stale: bytes,
) -> bytes:
    chosen = [chance.choice(way) if chance.random() < 0.7 else way[0] for way in ways]
    last = ways[-1][0]
    if isinstance(last, Write) and chance.random() < 0.3:
        chosen[-1] = Write(
            last.inode, last.offset, last.content[: chance.randrange(1 + len(last.content))]
        )
    length = chance.choice([None, None, *lengths])
    filler = chance.choice([b"", b"", stale, chance.randbytes(64)])
    if chance.random() < 0.2:
        chance.shuffle(chosen)
    return _built(synced, chosen, length, filler)


_Way: TypeAlias = "ContentChange | None"


@lru_cache(maxsize=256)
def _ways(change: ContentChange, *, is_last: bool) -> Sequence[_Way]:
    """Return what a crash may leave of one change: all, nothing, or one side of a tear."""
    if isinstance(change, Resize):
        return [change, None]
    inode, offset = change.inode, change.offset
    # The parts of a large write, copied, would be many times its size.
    content = memoryview(change.content)
    borders = set(range(SECTOR - offset % SECTOR, len(content), SECTOR))
    ways: list[_Way] = [change, None]
    for border in sorted(borders):
        ways.append(Write(inode, offset, content[:border]))
        ways.append(Write(inode, offset + border, content[border:]))
    if is_last:
        cuts = {1, len(content) // 2, len(content) - 1} - borders - {0, len(content)}
        ways += [Write(inode, offset, content[:cut]) for cut in sorted(cuts) if cut > 0]
    return ways


def _built(synced: bytes, chosen: Sequence[_Way], length: int | None, filler: bytes = b"") -> bytes:
    content = bytearray(synced)
    for change in chosen:
        if isinstance(change, Write):
            if filler and change.offset > len(content):
                content.extend(_repeated(filler, change.offset - len(content)))
            put(content, change.content, change.offset)
        elif change is not None:
            _resize(content, change)
    if length is not None:
        if filler and length > len(content):
            content.extend(_repeated(filler, length - len(content)))
        resize(content, length)
    return bytes(content)


def _lengths(synced: bytes, pending: Sequence[ContentChange]) -> list[int]:
    """Return the lengths that the file had since its last sync."""
    content = bytearray(synced)
    lengths = {len(synced)}
    for change in pending:
        if isinstance(change, Write):
            put(content, change.content, change.offset)
        else:
            _resize(content, change)
        lengths.add(len(content))
    return sorted(lengths)


def _resize(content: bytearray, change: Resize) -> None:
    resize(content, max(change.length, len(content)) if change.grow_only else change.length)


def _repeated(filler: bytes, length: int) -> bytes:
    return (filler * (length // len(filler) + 1))[:length]


def _kept(file: _File) -> bytes:
    return _built(file.synced, file.pending, None) if file.pending else file.synced


def _some_kept(count: int, chance: random.Random) -> list[bool]:
    """Return which of so many names are durable: all but one, only one, or a random share."""
    alone = chance.randrange(count) if count else 0
    match chance.randrange(4):
        case 0:
            return [index != alone for index in range(count)]
        case 1:
            return [index == alone for index in range(count)]
    share = chance.choice((0.1, 0.5, 0.9, 1.0))
    return [chance.random() < share for _ in range(count)]


def _touched(change: NameChange) -> set[int]:
    if isinstance(change, Move):
        return {change.source_directory, change.directory}
    return {change.directory}


def _apply_name(directories: Directories, change: NameChange) -> None:
    match change:
        case Link(directory=directory, name=name, inode=inode):
            directories[directory][name] = inode
        case Unlink(directory=directory, name=name):
            directories[directory].pop(name, None)
        case Move():
            rename(directories, change)
