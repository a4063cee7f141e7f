"""A folder that hostile paths cannot escape."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def own_folder() -> Iterator[str]:
    """Work in a new folder, which ends up removed with those above it that `..` reaches."""
    with tempfile.TemporaryDirectory() as outer:
        folder = Path(outer, "two", "below")
        folder.mkdir(parents=True)
        with contextlib.chdir(folder):
            yield str(folder)
