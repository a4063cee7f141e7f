"""Removing the files of a dropped topic while processes still use them."""

import contextlib
import os

from strandline.io import Io
from strandline.stores.files.manifest import TAIL, epochs_in, tail_name
from strandline.stores.files.place import TOPIC, Place
from strandline.stores.files.tail import DROPPED, FENCE_AT, Fence, pack_fence
from strandline.stores.open_file import OpenFile


def fence_dropped(place: Place) -> None:
    """Make every writer and reader of a partition find that its topic was dropped."""
    for epoch in epochs_in(place.io.list(place.directory), TAIL):
        with contextlib.suppress(FileNotFoundError):
            tail = OpenFile(place.io, place.path(tail_name(epoch)), "write")
            place.io.pwrite(tail.fd, pack_fence(place.tail_seed(epoch), Fence(DROPPED)), FENCE_AT)
            tail.close()


def remove_directory(io: Io, path: str) -> None:
    """Remove a directory and its contents; ignores files that other processes remove first."""
    with contextlib.suppress(FileNotFoundError):
        names = io.list(path)
        for name in names:
            if name != TOPIC:
                _remove(io, os.path.join(path, name))
        io.sync_directory(path)
        # Last: as long as records exist, this file marks them as dropped.
        if TOPIC in names:
            _remove(io, os.path.join(path, TOPIC))
        io.rmdir(path)


def _remove(io: Io, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if io.stat(path).is_directory:
            remove_directory(io, path)
        else:
            io.unlink(path)
