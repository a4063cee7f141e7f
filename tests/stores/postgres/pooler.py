"""A real pgbouncer in transaction mode, in front of a server of the tests."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg

from tests.stores.postgres.server import PATIENCE_S, PostgresServer, as_ordinary_user

#: Fewer than a log has connections, so that each of them gets the sessions of others.
SESSIONS: Final = 4
_PORT: Final = 6432


def why_no_pooler() -> str | None:
    """Return why no pooler can be started here; None if one can."""
    return None if _program() else "pgbouncer is not installed: apt-get install pgbouncer"


def _program() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


class Pooler:
    """A pooler that lends a session for a transaction, another one each time."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._folder = folder
        program = _program()
        assert program is not None
        (folder / "users.txt").write_text('"lab" ""\n')
        (folder / "pgbouncer.ini").write_text(
            f"""
            [databases]
            * = host={server.folder}
            [pgbouncer]
            listen_addr =
            listen_port = {_PORT}
            unix_socket_dir = {folder}
            auth_type = trust
            auth_file = users.txt
            pool_mode = transaction
            default_pool_size = {SESSIONS}
            server_round_robin = 1
            max_client_conn = 200
            """.replace("            ", "")
        )
        with (folder / "pooler.log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, "pgbouncer.ini"], stdout=log, stderr=log, cwd=folder, **as_ordinary_user()
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                return

    def url(self, schema: str | None = None) -> str:
        """Return where a log is, in a schema, by way of the pooler."""
        named = "" if schema is None else f"&schema={schema}"
        return f"postgresql://lab@/postgres?host={self._folder}&port={_PORT}{named}"

    def close(self) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait(PATIENCE_S)


@contextlib.contextmanager
def running_pooler(server: PostgresServer) -> Iterator[Pooler]:
    """Run a pooler in front of a server."""
    folder = Path(tempfile.mkdtemp(prefix="strandline-pool-", dir="/tmp"))
    user = as_ordinary_user()
    if user:
        os.chown(folder, user["user"], user["group"])
    try:
        with contextlib.closing(Pooler(server, folder)) as pooler:
            yield pooler
    finally:
        shutil.rmtree(folder, ignore_errors=True)
