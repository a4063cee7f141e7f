"""Damage to the files of a store: bits, sectors, whole files."""

import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.model.crash_images import SECTOR
from tests.model.disk import ROOT, Tree


class Damage(NamedTuple):
    """A store of which one file is not what it was."""

    title: str
    path: str
    #: Where in the file the damage begins and ends.
    start: int
    end: int
    tree: Tree


def paths_of(tree: Tree) -> dict[str, int]:
    """Return the files by path."""
    found: dict[str, int] = {}
    rest = [("", ROOT)]
    while rest:
        path, inode = rest.pop()
        if inode in tree.directories:
            rest.extend((f"{path}/{name}", to) for name, to in tree.directories[inode].items())
        else:
            found[path] = inode
    return dict(sorted(found.items()))


def contents_of(tree: Tree) -> dict[str, bytes]:
    """Return what the files hold, by path."""
    return {path: tree.files[inode] for path, inode in paths_of(tree).items()}


def inode_of(tree: Tree, path: str) -> int:
    """Return the file with this path."""
    inode = ROOT
    for name in path.split("/")[1:]:
        inode = tree.directories[inode][name]
    return inode


def replaced(tree: Tree, path: str, content: bytes) -> Tree:
    """Return the same store with another content of one file."""
    inode = inode_of(tree, path)
    return Tree({**tree.files, inode: content}, tree.directories)


def without(tree: Tree, path: str) -> Tree:
    """Return the same store with one file missing."""
    inode = inode_of(tree, path)
    directories: dict[int, Mapping[str, int]] = {
        directory: {name: to for name, to in names.items() if to != inode}
        for directory, names in tree.directories.items()
    }
    return Tree(tree.files, directories)


def flip(tree: Tree, path: str, bit: int) -> Damage:
    """Return the store with one bit turned over."""
    content = bytearray(tree.files[inode_of(tree, path)])
    content[bit // 8] ^= 1 << bit % 8
    at = bit // 8
    return Damage(f"bit {bit} of {path}", path, at, at + 1, replaced(tree, path, bytes(content)))


def sectors(tree: Tree, chance: random.Random, *, used: Mapping[str, int]) -> Iterator[Damage]:
    """Yield the store with each sector zeroed, filled with junk, and swapped with another.

    `used` says how much of each file is in use: what lies beyond is left alone.
    """
    for path, content in contents_of(tree).items():
        end = min(len(content), used.get(path, len(content)))
        for start in range(0, end, SECTOR):
            stop = min(start + SECTOR, len(content))
            before, piece, after = content[:start], content[start:stop], content[stop:]
            ways = {"zeroed": bytes(len(piece)), "junk": chance.randbytes(len(piece))}
            for title, other in ways.items():
                tree_now = replaced(tree, path, before + other + after)
                yield Damage(f"sector {start} of {path} {title}", path, start, stop, tree_now)
            if stop + SECTOR <= end and stop - start == SECTOR:
                swapped = before + after[:SECTOR] + piece + after[SECTOR:]
                tree_now = replaced(tree, path, swapped)
                title = f"sector {start} of {path} swapped with the next"
                yield Damage(title, path, start, stop + SECTOR, tree_now)


def files(
    tree: Tree, other: Tree, chance: random.Random, *, used: Mapping[str, int]
) -> Iterator[Damage]:
    """Yield the store with each file missing, emptied, cut, doubled, or of another store."""
    known = contents_of(tree)
    for path, content in known.items():
        length = len(content)
        yield Damage(f"{path} missing", path, 0, length, without(tree, path))
        suffix = path.rpartition(".")[2]
        case_variants = {each: text for each, text in known.items() if each.endswith(suffix)}
        ways = {
            "empty": b"",
            "cut to half of what is in use": content[: used.get(path, length) // 2],
            "cut by a byte of what is in use": content[: max(0, used.get(path, length) - 1)],
            "longer": content + chance.randbytes(100),
            "twice": content + content,
            **{f"a copy of {twin}": text for twin, text in case_variants.items() if twin != path},
            **{
                f"from another log, {twin}": text
                for twin, text in contents_of(other).items()
                if twin.endswith(suffix)
            },
        }
        for title, now in ways.items():
            yield Damage(f"{path}: {title}", path, 0, length, replaced(tree, path, now))
