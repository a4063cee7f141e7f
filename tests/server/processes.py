"""A server in a separate process, which can be killed and restarted on the same port."""

import signal
import subprocess
import sys
from typing import Any, Self

import httpx2
import msgspec

from tests.server.served import http_client


class ServerProcess:
    """`strandline serve`, over a log in a directory."""

    def __init__(self, path: str, port: int = 0, *options: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "strandline", "serve", "--json"),
                *("--url", f"file:{path}", "--port", str(port), *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._process.communicate()
        ready = msgspec.json.decode(line)
        self.url: str = ready["url"]
        self.flight: str | None = ready["flight"]
        self.port = int(self.url.rpartition(":")[2])
        self.pid = self._process.pid

    def client(self, token: str | None = None, **options: Any) -> httpx2.Client:
        """Return a client, with this token."""
        return http_client(self.url, token, **options)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        self._process.communicate()

    def terminate(self) -> tuple[int, str]:
        """Send SIGTERM; return its exit code, and what it has logged."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self) -> tuple[int, str]:
        """Return its exit code, and what it has logged."""
        _, logged = self._process.communicate(timeout=60)
        return self._process.returncode, logged.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            self.kill()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
