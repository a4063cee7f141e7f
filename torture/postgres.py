"""Writers with rows of their own on a PostgreSQL server, one seed at a time."""

import atexit
import functools
from contextlib import closing

from tests.stores.kills import kill_server_under_writers, kill_writing_processes
from tests.stores.postgres.outbox_writers import kill_block_processes, write_from_many
from tests.stores.postgres.server import PostgresServer

WRITERS = 16
ROWS_PER_WRITER = 1_000
KILLS_PER_LOG = 20
KILLS_PER_SERVER = 20


@functools.cache
def _server() -> PostgresServer:
    server = PostgresServer(max_connections="200")
    atexit.register(server.close)
    return server


def share_transactions(seed: int) -> None:
    """Have sixteen writers write rows and events, with delays, savepoints and aborts."""
    write_from_many(_server().url(f"w{seed}"), WRITERS, ROWS_PER_WRITER, seed)


def kill_blocks(seed: int) -> None:
    """Kill processes within their `transaction()` blocks."""
    kill_block_processes(_server().url(f"k{seed}"), KILLS_PER_LOG, seed)


def kill_server(seed: int) -> None:
    """Kill a server, with all of its processes, again and again while four writers append."""
    with closing(PostgresServer()) as server:
        kill_server_under_writers(server, server.url("kills"), KILLS_PER_SERVER, seed)


def kill_writers(seed: int) -> None:
    """Kill processes that append, two at a time, while a reader follows."""
    kill_writing_processes(_server().url(f"p{seed}"), KILLS_PER_LOG // 2, seed)
