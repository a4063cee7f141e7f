"""One real server for the logs of many tests: each log has its own path."""

import socket
import threading
from collections.abc import Sequence
from typing import Any

import uvicorn

from strandline.log import Log
from strandline.server import Application, ServerSettings
from strandline.server.app import ENDPOINTS
from strandline.server.endpoint import Endpoint


class Switchboard:
    """Serves any number of logs under `/N`, until it is closed."""

    def __init__(self) -> None:
        self._apps: list[Application] = []
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        self._port = listening.getsockname()[1]
        config = uvicorn.Config(
            self._answer, interface="asgi3", lifespan="off", log_config=None, ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, daemon=True
        )
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.005)

    def serve(
        self,
        log: Log,
        settings: ServerSettings | None = None,
        endpoints: Sequence[Endpoint] = ENDPOINTS,
    ) -> str:
        """Return the URL of a log."""
        self._apps.append(Application(log, settings, endpoints=endpoints))
        return f"http://127.0.0.1:{self._port}/{len(self._apps) - 1}"

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        _, number, rest = scope["path"].split("/", 2)
        path = f"/{rest}"
        scope = {**scope, "path": path, "raw_path": path.encode()}
        await self._apps[int(number)](scope, receive, send)

    def close(self) -> None:
        """End the server."""
        for each in self._apps:
            each.streams.is_draining = True
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()
