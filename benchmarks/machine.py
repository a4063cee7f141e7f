"""Where a run took place, and with which versions."""

import os
import platform
import sqlite3
from importlib.metadata import version
from pathlib import Path

DISTRIBUTIONS = ("strandline", "pyarrow", "msgspec", "google-crc32c", "rocksdict", "lmdb")

GIB = 1 << 30


def machine(scratch: Path) -> dict[str, str | int | float]:
    """Return what a reader needs in order to judge the figures."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count() or 1,
        "memory_gib": round(memory_bytes / GIB, 1),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "file_system": file_system(scratch),
    }


def versions() -> dict[str, str]:
    """Return the versions of ours and of everything that we are measured beside."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in DISTRIBUTIONS},
        "sqlite": sqlite3.sqlite_version,
    }


def file_system(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Return the type of the file system that holds `folder`; unknown where Linux is not."""
    if not mounts.exists():
        return "unknown"
    here = folder.resolve()
    found = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    # The deepest mount holds it; of several at one place, the last one made.
    holding = [(len(point), kind) for point, kind in found if here.is_relative_to(point)]
    return max(reversed(holding), key=lambda mount: mount[0], default=(0, "unknown"))[1]
