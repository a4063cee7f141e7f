"""`strandline serve` killed under its clients, one seed at a time."""

import tempfile
from pathlib import Path

from tests.server.processes import ServerProcess
from tests.stores.kills import kill_server_under_writers

KILLS_PER_SERVER = 20


class _Mortal:
    """A server that is restarted at the same port with the same log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.process = ServerProcess(path)

    def kill(self) -> None:
        self.process.kill()

    def start(self) -> None:
        self.process = ServerProcess(self._path, self.process.port)


def kill_server(seed: int) -> None:
    """Kill a server again and again while four writers append over HTTP."""
    with tempfile.TemporaryDirectory() as folder:
        mortal = _Mortal(str(Path(folder, "log")))
        try:
            url = mortal.process.url
            kill_server_under_writers(mortal, url, KILLS_PER_SERVER, seed, waiting="patience_s")
        finally:
            mortal.process.__exit__()
