"""A standalone cluster of Spark on this machine: a master and workers, each a process."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from strandline.spark import find_java

LOOPBACK = "127.0.0.1"
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_UNSHARE = shutil.which("unshare") or "/usr/bin/unshare"
_DEPLOY = "org.apache.spark.deploy"
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Daemon:
    """A master or a worker, with the executors that it started."""

    def __init__(
        self, folder: Path, name: str, arguments: Sequence[str], hidden: Path | None = None
    ) -> None:
        self._said = folder / f"{name}.log"
        environment = {
            **_without_spark(),
            **find_java().variables,
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_START,
            "SPARK_NO_DAEMONIZE": "1",
        }
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*_without(hidden), str(_SPARK_CLASS), *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def wait_until_it_says(self, pattern: str) -> str:
        """Return the first group that matches its log."""
        while True:
            ended = self._process.poll() is not None
            found = re.search(pattern, self._said.read_text())
            if found:
                return found[1]
            assert not ended, self._said.read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.1)

    def kill(self) -> None:
        """Kill it, and its executors with it, as a machine that is lost."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@dataclass(frozen=True)
class Cluster:
    master: str
    workers: Sequence[Daemon]


@contextlib.contextmanager
def running_cluster(
    folder: Path, workers: int = 2, *, hidden: Path | None = None
) -> Iterator[Cluster]:
    """Give a cluster with a core in each worker, and end all of it.

    The workers, and with them the executors, see nothing in the folder `hidden`.
    """
    with contextlib.ExitStack() as stack:

        def started(name: str, *arguments: str, hidden: Path | None = None) -> Daemon:
            daemon = Daemon(folder, name, arguments, hidden)
            stack.callback(daemon.kill)
            return daemon

        ports = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
        master = started("master", f"{_DEPLOY}.master.Master", *ports)
        url = master.wait_until_it_says(r"Starting Spark master at (spark://\S+)")
        terms = (*ports, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
        found = [
            started(f"worker-{n}", f"{_DEPLOY}.worker.Worker", *terms, url, hidden=hidden)
            for n in range(workers)
        ]
        for each in found:
            each.wait_until_it_says(r"(Successfully registered with master)")
        yield Cluster(url, found)


def _without(hidden: Path | None) -> list[str]:
    """Return what starts a program in its own mount namespace, with an empty folder there."""
    if hidden is None:
        return []
    emptied = 'mount -t tmpfs none "$0" && exec "$@"'
    return [_UNSHARE, "--mount", "sh", "-c", emptied, str(hidden)]


def why_nothing_can_be_hidden() -> str | None:
    """Return why a worker cannot have its own mount namespace; None if it can."""
    try:
        made = subprocess.run([_UNSHARE, "--mount", "true"], capture_output=True, check=False)
    except OSError as error:
        return str(error)
    return f"unshare ended with {made.returncode}" if made.returncode else None


def bare_python(folder: Path) -> Path:
    """Return a Python that has the libraries of this one, and no Strandline."""
    program = folder / "bare-python"
    libraries = sysconfig.get_path("purelib")
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{libraries}:$PYTHONPATH" exec {sys.executable} -S "$@"\n'
    )
    program.chmod(0o755)
    return program


def driver_environment(python: Path) -> dict[str, str]:
    """Return the environment of a driver that uses this Python for everything but itself."""
    return {
        **_without_spark(),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }


def _without_spark() -> dict[str, str]:
    """Return this process's environment, without what its own session has left there."""
    return {name: value for name, value in os.environ.items() if "SPARK" not in name}
