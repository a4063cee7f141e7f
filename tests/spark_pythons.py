"""The Pythons that Spark starts, forked from one that has paid its imports.

Spark starts a Python for each kind of work, and gives it ten seconds to connect back; most
of such a start is the import of PySpark from its archive, which is compiled each time. Here
its Python is a small program that hands what it was given to a server, and lives until the
process that the server forked for it has ended.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_SOCKET = "pythons"
_VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_IMPORTED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark_strandline",
)
# Isolated and without site: it imports nothing that is not built in or plain.
_PROGRAM = """\
#!/bin/sh
case "$2" in
    pyspark.daemon|pyspark.sql.*) exec {python} -I -S {asking} "$@" ;;
esac
exec {python} "$@"
"""
_ASKING = """\
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as server:
    request = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}
    os.chdir({folder!r})
    server.connect({name!r})
    text = json.dumps(request).encode()
    socket.send_fds(server, [len(text).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(text)
    for number in range(3):
        os.close(number)
    status = server.recv(16)
os._exit(int(status) if status else 1)
"""


@contextlib.contextmanager
def forked_pythons(folder: str) -> Iterator[None]:
    """Let sessions that start meanwhile, here or in children, have such Pythons.

    What the server needs is in `folder`.
    """
    program, asking = Path(folder, "python"), Path(folder, "asking.py")
    asking.write_text(_ASKING.format(folder=folder, name=_SOCKET))
    program.write_text(_PROGRAM.format(python=sys.executable, asking=asking))
    program.chmod(0o755)
    # As Spark starts its Pythons; and one that has threads cannot be forked.
    settings = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES", "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.spark_pythons", folder],
        cwd=ROOT,
        env={**os.environ, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == b"ready\n"
        with environment(dict.fromkeys(_VARIABLES, str(program))):
            yield
    finally:
        server.stdin.close()
        server.wait()
        server.stdout.close()


@contextlib.contextmanager
def environment(settings: dict[str, str]) -> Iterator[None]:
    """Let this process, and those that it starts, have these variables for a while."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ |= settings
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Server:
    """Forks as it is asked, until the process that started it ends."""

    def __init__(self, folder: str) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        # The whole path may be too long for a socket.
        with contextlib.chdir(folder):
            self._listening.bind(_SOCKET)
        self._listening.listen(64)
        self._children: dict[int, socket.socket] = {}
        self._ended, self._wake = socket.socketpair()
        self._wake.setblocking(False)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            for source in (sys.stdin, self._listening, self._ended):
                selector.register(source, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is sys.stdin:
                        return
                    if key.fileobj is self._listening:
                        self._fork(selector)
                    elif key.fileobj is self._ended:
                        self._ended.recv(64)
                        self._reap(selector)
                    else:
                        selector.unregister(key.fileobj)
                        # With all that it has forked. PySpark's own end upon SIGTERM may be
                        # swallowed, where it hits at the wrong moment.
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(key.data, signal.SIGKILL)

    def _fork(self, selector: selectors.BaseSelector) -> None:
        asker, _ = self._listening.accept()
        request, fds = _request(asker)
        if request is None:
            asker.close()
            for fd in fds:
                os.close(fd)
            return
        pid = os.fork()
        with contextlib.suppress(ProcessLookupError):
            os.setpgid(pid, pid)
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            selector.close()
            for each in (asker, self._listening, self._ended, self._wake, *self._children.values()):
                each.close()
            _live(request, fds)
        for fd in fds:
            os.close(fd)
        self._children[pid] = asker
        selector.register(asker, selectors.EVENT_READ, pid)

    def _reap(self, selector: selectors.BaseSelector) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            asker = self._children.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(KeyError):
                selector.unregister(asker)
            with contextlib.suppress(OSError), asker:
                asker.sendall(b"%d" % (code if code >= 0 else 128 - code))


def _request(asker: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Return what is asked for; None if the program was killed before it had sent all of it."""
    fds: list[int] = []
    try:
        length, fds, _, _ = socket.recv_fds(asker, 4, 3)
        with asker.makefile("rb") as reader:
            text = reader.read(int.from_bytes(length, "big"))
    except ConnectionError:
        return None, fds
    is_whole = len(length) == 4 and len(fds) == 3 and len(text) == int.from_bytes(length, "big")
    return (json.loads(text) if is_whole else None), fds


def _live(request: dict[str, Any], fds: list[int]) -> None:
    """Be the Python that was asked for. Never returns."""
    code = 1
    try:
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
            os.close(fd)
        environment = request["environment"]
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(request["folder"])
        sys.path[:0] = [request["folder"], *environment.get("PYTHONPATH", "").split(os.pathsep)]
        importlib.invalidate_caches()
        _, module, *arguments = request["arguments"]
        sys.argv = [module, *arguments]
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 # As any Python that ends so.
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)


def main(folder: str) -> None:
    """Serve in a folder, until the standard input ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in _IMPORTED:
            importlib.import_module(module)
    # That of Arrow's memory knows about forks.
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    assert len(names) - names.count("jemalloc_bg_thd") == 1, f"not to be forked: {names}"
    gc.collect()
    gc.freeze()
    server = Server(folder)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
