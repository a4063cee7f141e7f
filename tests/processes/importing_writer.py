"""Appends many records at once, and prints what is imported while the partition is locked."""

import fcntl
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import strandline as sl


class LockedImports:
    """Finds no module; records which are imported while the lock is held."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[str] = []

    def find_spec(self, name: str, *_: object) -> None:
        """Be asked for a module that is imported for the first time."""
        if any(is_locked(lock) for lock in self.folder.rglob("lock")):
            self.seen.append(name)


def is_locked(path: Path) -> bool:
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def main(folder: Path, kind: str) -> None:
    events = [sl.Event("tick", number) for number in range(300)]
    values: Sequence[Any] = events if kind == "event" else [b"tick"] * 300
    with sl.open(f"file:{folder / 'log'}") as log:
        log.create_topic("ticks", value_kind=sl.ValueKind(kind))
        imports: Any = LockedImports(folder)
        sys.meta_path.insert(0, imports)
        log.append_many("ticks", values, keys=[None] * len(values))
    sys.stdout.write("\n".join(imports.seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
