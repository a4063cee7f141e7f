"""A server of Redis on this machine, in its own folder."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which


@contextmanager
def redis_server(folder: Path, *options: str, fsync: str = "always") -> Iterator[None]:
    """Run a server that appends each write to its file, with this `appendfsync`."""
    kept = ("--dir", str(folder), "--appendonly", "yes", "--appendfsync", fsync, "--save", "")
    server = subprocess.Popen(
        [which("redis-server") or "", *options, *kept], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if "eady to accept connections" in line:
                break
        yield
    finally:
        server.kill()
        server.communicate()
