"""Opens the log of a URL, over any io, with rare code paths made frequent."""

import shutil
from pathlib import Path
from typing import Any

from strandline.io import Io
from strandline.log import Log
from strandline.stores.sqlite import logged_bytes
from tests.logs import file_log, sqlite_log

#: As many bytes as make a checkpoint due, or a segment full, every few appends.
SMALL_BYTES = 16 * 1024
LOCK_TIMEOUT_S = 20.0

SCHEMES = ("sqlite", "file")
#: Where under `strandline.log` each is implemented.
FOLDERS = {"sqlite": "sqlite", "file": "files"}


def open_store(
    url: str, *, io: Io | None = None, lock_timeout_s: float = LOCK_TIMEOUT_S, **options: Any
) -> Log:
    """Open the log for writing."""
    scheme, _, path = url.partition(":")
    if scheme == "sqlite":
        setattr(logged_bytes, "CHECKPOINT_BYTES", SMALL_BYTES)  # noqa: B010 - It is a constant elsewhere.
        return sqlite_log(path, io=io, lock_timeout_s=lock_timeout_s, **options)
    if scheme == "file":
        return file_log(
            path, io=io, lock_timeout_s=lock_timeout_s, segment_bytes=SMALL_BYTES, **options
        )
    raise ValueError(f"no store for {url}")


def url_in(scheme: str, folder: Path) -> str:
    """Return the URL of a log in a folder that holds nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    return f"{scheme}:{folder / ('events.db' if scheme == 'sqlite' else 'events')}"


def copy_of(url: str, folder: Path) -> str:
    """Copy the log into a fresh folder as it lies there, and return the copy's URL."""
    scheme, _, path = url.partition(":")
    shutil.copytree(Path(path).parent, folder)
    return f"{scheme}:{folder / Path(path).name}"


def lock_files(url: str) -> list[Path]:
    """Return the files under whose locks the log is written."""
    return list(Path(url.partition(":")[2]).parent.rglob("*lock"))
