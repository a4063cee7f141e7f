"""A minimal ASGI application on uvicorn: reads a request, and answers."""

import socket
import sys
from typing import Any

import uvicorn

_ANSWER = b'{"offset":0}'
_START = {
    "type": "http.response.start",
    "status": 201,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"12")],
}


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """See ASGI. Nothing is stored."""
    del scope
    while (await receive()).get("more_body", False):
        pass
    await send(_START)
    await send({"type": "http.response.body", "body": _ANSWER})


def main(descriptor: int) -> None:
    """Serve on a socket that is open."""
    config = uvicorn.Config(
        answer, log_level="warning", access_log=False, lifespan="off", ws="none"
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    main(int(sys.argv[1]))
