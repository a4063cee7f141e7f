"""The folder in which the examples of a page run."""

import gc
import os
import tempfile
from typing import Any


def enter_folder(namespace: dict[str, Any], prefix: str = "strandline docs ") -> None:
    """Have the examples of a page, which share these names, run in a new folder."""
    namespace["_left"] = os.getcwd()
    namespace["_folder"] = tempfile.TemporaryDirectory(prefix=prefix)
    os.chdir(namespace["_folder"].name)


def leave_folder(namespace: dict[str, Any]) -> None:
    """Remove the folder of a page, and what the page has left open in it."""
    os.chdir(namespace["_left"])
    folder = namespace["_folder"]
    # The names of a page outlive it, and a log among them would work until the run ends.
    namespace.clear()
    gc.collect()
    folder.cleanup()
