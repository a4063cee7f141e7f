"""A process that has imported everything, and forks a child for each trial.

The supervisor asks for a child by the name of what it runs, and hands over the pipe
on which the child reports. A dead child keeps its number until the supervisor has
asked for its end, so that no signal ever reaches a stranger.
"""

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from tests.patience import Patience
from tests.processes.planted_bugs import planted
from tests.processes.report import Message, Report

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 60.0
_STACKS = signal.SIGUSR1
_STACKS_WAIT_S = 2.0
_REQUEST_BYTES_MAX = 65536


class HangError(AssertionError):
    """A child neither reported nor ended in time; the message has the stacks of its threads."""


class Child:
    """The supervisor's end of one process."""

    def __init__(self, server: "ForkServer", pid: int, pipe: int) -> None:
        self._server = server
        self._pipe = pipe
        self._buffer = b""
        self._unread: deque[Message] = deque()
        self.pid = pid
        self.status: int | None = None
        self.is_ended = False

    def fileno(self) -> int:
        """For select."""
        return self._pipe

    def ready(self, timeout_s: float = 0.0) -> list[Message] | None:
        """Return what was reported since; None once the process has ended."""
        if self._unread:
            found, self._unread = list(self._unread), deque()
            return found
        if not select.select([self._pipe], [], [], timeout_s)[0]:
            return []
        read = os.read(self._pipe, 1 << 20)
        if not read:
            self.is_ended = True
            return None
        *lines, self._buffer = (self._buffer + read).split(b"\n")
        return [json.loads(line) for line in lines]

    def messages(self, busy_timeout_s: float = PATIENCE_S) -> Iterator[Message]:
        """Yield each message until the process exits or is killed.

        A caller that stops early finds the rest later. Raises HangError when the process could
        have run for `busy_timeout_s` since its last message.
        """
        patience = Patience(self.pid, busy_timeout_s)
        while True:
            left_s = patience.left_s()
            found = self.ready(max(0.0, left_s))
            if found is None:
                return
            self._unread.extend(found)
            while self._unread:
                yield self._unread.popleft()
            if found:
                patience.renew()
            elif left_s <= 0:
                raise self.hang("nothing was reported and nothing ended")

    def hang(self, what: str) -> HangError:
        """Return the error that says what the process does instead."""
        state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return HangError(f"{what}: pid={self.pid} state={state}\n{self._server.stacks(self.pid)}")

    def signal(self, number: int) -> None:
        """Send a signal; without effect on one that has ended."""
        os.kill(self.pid, number)

    def wait_until_stopped(self) -> None:
        """Return once it surely sleeps: a SIGCONT before that would be lost."""
        patience = Patience(self.pid, PATIENCE_S)
        while Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            if patience.left_s() <= 0:
                raise self.hang("it does not stop")
            time.sleep(0.001)

    def kill(self) -> list[Message]:
        """Kill it, and return what it had still reported."""
        self.signal(signal.SIGKILL)
        rest = list(self.messages())
        self.reap()
        return rest

    def reap(self) -> int:
        """Return how it ended: 0, or minus a signal, or the number it gave."""
        if self.status is None:
            self.status = self._server.reap(self.pid)
            os.close(self._pipe)
        return self.status


class ForkServer:
    """The supervisor's end of the server. For one thread."""

    def __init__(self, *also: str) -> None:
        """Import what the tests of this folder need, and `also` these modules of it."""
        mine, theirs = socket.socketpair()
        self._stacks = tempfile.TemporaryFile()  # noqa: SIM115 # Closed with the server.
        fds = [theirs.fileno(), self._stacks.fileno()]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.processes.fork_server", *map(str, fds), *also],
                pass_fds=fds,
                cwd=ROOT,
            )
        self._socket = mine

    def start(self, task: str, *, bug: str | None = None, **arguments: Any) -> Child:
        """Fork a child that runs `tests.processes.<task>`, `module:function`."""
        reading, writing = os.pipe()
        try:
            request = json.dumps({"task": task, "bug": bug, "arguments": arguments}).encode()
            socket.send_fds(self._socket, [request], [writing])
        finally:
            os.close(writing)
        return Child(self, self._answer(), reading)

    def run(self, task: str, *, bug: str | None = None, **arguments: Any) -> list[Message]:
        """Run a task to its end, and return what it reported; it must end well."""
        child = self.start(task, bug=bug, **arguments)
        try:
            messages = list(child.messages())
        except HangError:
            child.kill()
            raise
        status = child.reap()
        assert status == 0, f"{task} ended with {status}: {messages[-1:]}"
        return messages

    def reap(self, pid: int) -> int:
        """Wait for a child that has ended, or is about to."""
        self._socket.sendall(json.dumps({"reap": pid}).encode())
        return self._answer()

    def stacks(self, pid: int) -> str:
        """Return the stacks of the threads of a child; empty for one that is stopped."""
        start = self._stacks.seek(0, os.SEEK_END)
        os.kill(pid, _STACKS)
        deadline = time.monotonic() + _STACKS_WAIT_S
        while self._stacks.seek(0, os.SEEK_END) == start and time.monotonic() < deadline:
            time.sleep(0.01)
        self._stacks.seek(start)
        return self._stacks.read().decode()

    def close(self) -> None:
        """End the server and the children that are left."""
        self._socket.close()
        self._stacks.close()
        self._process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _answer(self) -> int:
        answer = self._socket.recv(64)
        assert answer, "the fork server has died"
        return int(answer)


def serve(control: socket.socket) -> None:
    """Fork and reap as the supervisor asks, until it ends."""
    children: set[int] = set()
    gc.collect()
    gc.freeze()
    while True:
        line, fds, _, _ = socket.recv_fds(control, _REQUEST_BYTES_MAX, 1)
        if not line:
            break
        request = json.loads(line)
        if "reap" in request:
            _, status = os.waitpid(request["reap"], 0)
            children.discard(request["reap"])
            control.sendall(b"%d" % os.waitstatus_to_exitcode(status))
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            _run_workload(request, Report(fds[0]))
        os.close(fds[0])
        children.add(pid)
        control.sendall(b"%d" % pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _run_workload(request: dict[str, Any], report: Report) -> None:
    """Be the child. Never returns."""

    def tell(failure: threading.ExceptHookArgs) -> None:
        text = "".join(traceback.format_exception(failure.exc_value))
        report.say("crash", f"in a thread: {text}")

    threading.excepthook = tell
    try:
        module, _, function = request["task"].partition(":")
        task = getattr(importlib.import_module(f"tests.processes.{module}"), function)
        with planted(request["bug"]):
            task(report, **request["arguments"])
    except BaseException:  # noqa: BLE001 - Whatever it is, the supervisor gets it.
        with contextlib.suppress(OSError):
            report.say("crash", traceback.format_exc())
        os._exit(70)
    os._exit(0)


def main() -> None:
    """Serve on the socket whose number is the first argument; stacks go to the second."""
    names = (
        *("workloads", "rare_paths", "concurrent_writers", "forks", "joining_readers"),
        *("outbox_workloads", "trigger_processes", "poisoned"),
    )
    for module in (*names, *sys.argv[3:]):
        importlib.import_module(f"tests.processes.{module}")
    faulthandler.register(_STACKS, file=int(sys.argv[2]))
    with socket.socket(fileno=int(sys.argv[1])) as control:
        serve(control)


if __name__ == "__main__":
    main()
