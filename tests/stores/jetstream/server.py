"""A real NATS server for tests, which can be killed and restarted."""

import contextlib
import json
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Final

from tests.stores.engine_server import NoServerError, ServerProcess, new_folder
from tests.stores.wire import Wire

PATIENCE_S: Final = 60.0


def _program() -> str:
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise NoServerError("the package with nats-server is not installed")
    return found


@cache
def why_none() -> str | None:
    """Return why no server can be started here; None if one can."""
    try:
        subprocess.run([_program(), "--version"], check=True, capture_output=True)
    except (NoServerError, OSError, subprocess.CalledProcessError) as error:
        return str(error)
    return None


class NatsServer(ServerProcess):
    """A server in its own folder, on a port that the system chose once."""

    def __init__(
        self,
        *,
        sync: str = "always",
        jetstream: bool = True,
        limits: str = "jetstream: enabled",
        users: str = 'users: [{user: "app", password: "secret"}]',
        more: str = "max_payload: 33554432",
        port: int = -1,
        waits: bool = True,
        inside: Path | None = None,
    ) -> None:
        if (reason := why_none()) is not None:
            raise NoServerError(reason)
        super().__init__(new_folder("nats", inside=inside))
        self._wire: Wire | None = None
        self._sync = sync
        self._jetstream = jetstream
        self._limits = limits
        self._users = users
        self._more = more
        self.port = port
        try:
            if waits:
                self.start()
            else:
                self._write_settings()
                self.begin()
        except BaseException:
            self.close()
            raise

    def _write_settings(self) -> None:
        store = f'jetstream {{ store_dir: "js", sync_interval: "{self._sync}" }}'
        enabled = f"{self._limits}," if self._jetstream else ""
        (self.folder / "server.conf").write_text(
            f"""
            listen: "127.0.0.1:{self.port}"
            ports_file_dir: "."
            {store if self._jetstream else ""}
            accounts {{
                SYS: {{ users: [{{user: "sys", password: "hidden"}}] }}
                APP: {{ {enabled} {self._users} }}
            }}
            system_account: SYS
            {self._more}
            """
        )

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        self._write_settings()
        self.begin()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return once it takes connections; it is started again if it ends before."""
        deadline = time.monotonic() + PATIENCE_S
        while (port := self._found_port()) is None:
            if time.monotonic() > deadline:
                raise NoServerError(f"nats-server did not start: {self.output()}")
            if not self.is_running:
                # Its port may be in use for a moment, by a client of another test.
                self.begin()
            time.sleep(0.01)
        self.port = port

    def begin(self) -> None:
        """Start it, and do not wait for it."""
        for each in self.folder.glob("*.ports"):
            each.unlink()
        self.launch([_program(), "-c", "server.conf"])

    def _found_port(self) -> int | None:
        for path in self.folder.glob("*.ports"):
            with contextlib.suppress(json.JSONDecodeError, OSError, KeyError, IndexError):
                return int(json.loads(path.read_text())["nats"][0].rpartition(":")[2])
        return None

    def close(self) -> None:
        """Stop it and its wire, and remove its folder."""
        if self._wire is not None:
            self._wire.close()
        super().close()

    @property
    def wire(self) -> Wire:
        """A wire that leads to it."""
        if self._wire is None:
            self._wire = Wire(self.port)
        return self._wire

    @property
    def data(self) -> Path:
        """Where it keeps what it stores."""
        return self.folder / "js"

    def url(self, log: str | None = None, *, user: str = "app:secret") -> str:
        """Return where a log is."""
        named = "" if log is None else f"/{log}"
        return f"nats://{user}@127.0.0.1:{self.port}{named}"

    @property
    def system_url(self) -> str:
        """Where the system account is reached."""
        return self.url(user="sys:hidden")
