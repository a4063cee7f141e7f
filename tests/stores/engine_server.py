"""What the servers of all engines share: a fast folder, and the reason if one cannot start."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_KILL_S: Final = 60.0

_MEMORY: Final = "/dev/shm"  # noqa: S108 - The folder in it has its own name.
_FREE_MIN: Final = 2 << 30


class NoServerError(Exception):
    """Why no server can be started here."""


def new_folder(name: str, *, inside: Path | None = None) -> Path:
    """Make a folder for a server, in memory if there is room: no test cuts the power."""
    # The path is short, since the path of a socket in it is.
    beside = _MEMORY if _has_room() else "/tmp"  # noqa: S108 - As above.
    return Path(tempfile.mkdtemp(prefix=f"strandline-{name}-", dir=inside or beside))


def _has_room() -> bool:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(_MEMORY).free > _FREE_MIN
    return False


class ServerProcess:
    """A server with its own folder and process group, which can be killed and restarted."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._output = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, command: Sequence[str]) -> None:
        """Start it, and do not wait for it."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=self.folder, start_new_session=True
            )

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """Return the end of what it has printed."""
        return self._output.read_text(errors="replace")[-2000:]

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill it at once."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(_KILL_S)

    def close(self) -> None:
        """Stop it, and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
