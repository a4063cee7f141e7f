"""A minimal starlette application that stores bodies: appends them to a file."""

import os
import socket
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


def main(descriptor: int, path: str, durability: str) -> None:
    """Serve on a socket that is open; each body becomes a line of the file."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 0

    async def append(request: Request) -> Response:
        nonlocal count
        os.write(file, await request.body() + b"\n")
        if durability == "durable":
            os.fdatasync(file)
        count += 1
        return JSONResponse({"offset": count - 1}, 201)

    app = Starlette(routes=[Route("/", append, methods=["POST"])])
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
