"""What the servers of all engines share: a fast folder, and the reason if one cannot start."""

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

_MEMORY: Final = "/dev/shm"  # noqa: S108 - The folder in it has its own name.
_FREE_MIN: Final = 2 << 30


class NoServerError(Exception):
    """Why no server can be started here."""


def new_folder(name: str, *, inside: Path | None = None) -> Path:
    """Make a folder for a server, in memory if there is room: no test cuts the power."""
    # The path is short, since the path of a socket in it is.
    beside = _MEMORY if _has_room() else "/tmp"  # noqa: S108 - As above.
    return Path(tempfile.mkdtemp(prefix=f"strandline-{name}-", dir=inside or beside))


def _has_room() -> bool:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(_MEMORY).free > _FREE_MIN
    return False
