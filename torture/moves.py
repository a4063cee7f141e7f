"""Copies of logs to other stores, killed one seed at a time."""

import tempfile
from pathlib import Path

from tests.moves.copy_kills import kill_copies

KILLS_PER_LOG = 10


def kill_copying(seed: int) -> None:
    """Kill the process that copies, again and again."""
    pair = (("file", "sqlite"), ("sqlite", "file"))[seed % 2]
    with tempfile.TemporaryDirectory() as folder:
        kill_copies(Path(folder), pair[0], f"{pair[1]}:{folder}/target", KILLS_PER_LOG, seed)
