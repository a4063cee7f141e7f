"""A real server on a thread of the test's process."""

import threading
from typing import Any

import httpx2

from strandline.log import Log
from strandline.server.running import Address, RunningServer
from strandline.server.settings import ServerSettings


def http_client(url: str, token: str | None = None, **options: Any) -> httpx2.Client:
    """Return a client of a server, with this token."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    # Without TLS: loading the certificates of all authorities takes long.
    given = {"verify": False, "timeout": 30, **options}
    return httpx2.Client(base_url=url, headers=headers, **given)


class Served:
    """Serves a log until it is stopped."""

    def __init__(
        self,
        log: Log,
        settings: ServerSettings | None = None,
        address: Address | None = None,
        **more: Any,
    ) -> None:
        self.server = RunningServer(log, address or Address(port=0), settings, **more)
        self.url = self.server.url
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=self.server.run, args=(lambda _: self._ready.set(),), daemon=True
        )
        self._thread.start()
        assert self._ready.wait(30), "the server did not start"

    def client(self, token: str | None = None, **options: Any) -> httpx2.Client:
        """Return a client, with this token."""
        return http_client(self.url, token, **options)

    def stop(self) -> None:
        """End the server, and wait for it."""
        self.server.stop()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not end"
