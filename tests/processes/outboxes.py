"""Rows and events of processes that are killed: both are stored, or neither."""

import random
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.processes import report as reports
from tests.processes.fork_server import PATIENCE_S, Child, ForkServer
from tests.processes.ledger import Ledger, Value
from tests.processes.report import Message
from tests.processes.stores import copy_of, url_in

KILLS_PER_LOG = 20
WRITERS = ("a", "b", "c")
LINES_MAX = 20_000


class Outboxes:
    """One log in an application's database, its writers, and two who look on."""

    def __init__(self, server: ForkServer, url: str, seed: int, bug: str | None = None) -> None:
        self._server = server
        self._url = url
        self._bug = bug
        self._seed = seed
        self._rng = random.Random(seed)
        self._ledger = Ledger()
        self._following = dict.fromkeys(WRITERS, 0)
        self._came: list[Value] = []
        server.run("outbox_workloads:create", url=url)
        self._writers = {name: self._start(name) for name in WRITERS}
        self._onlookers = [
            server.start(f"outbox_workloads:{task}", url=url) for task in ("tail", "look")
        ]

    def kill_one(self) -> None:
        """Let them write a while, kill one of them somewhere, and start it again."""
        name = self._rng.choice(WRITERS)
        wanted = self._rng.randrange(1, 12)
        deadline = time.monotonic() + PATIENCE_S
        while wanted > 0 and time.monotonic() < deadline:
            for who, child in self._writers.items():
                found = child.ready(0.001)
                assert found is not None, f"{self._where}: {who} has ended"
                self._note(found)
                wanted -= len(found) if who == name else 0
            self._look_on()
        time.sleep(self._rng.choice([0, self._rng.uniform(0, 0.002)]))
        self._note(self._writers[name].kill())
        self._writers[name] = self._start(name)

    def finish(self) -> None:
        """Kill all processes, and read everything back in a process that saw none of it."""
        for child in self._writers.values():
            self._note(child.kill())
        self._note(self._server.run("outbox_workloads:read_back", url=self._url))
        deadline = time.monotonic() + PATIENCE_S
        while len(self._came) < self._high and time.monotonic() < deadline:
            self._look_on(0.01)
        for child in self._onlookers:
            self._note(child.kill())
        assert len(self._came) == self._high, f"{self._where}: the tail is missing some"

    def close(self) -> None:
        """Leave no process behind."""
        for child in (*self._writers.values(), *self._onlookers):
            if child.status is None:
                child.kill()

    @property
    def _where(self) -> str:
        return f"seed={self._seed} url={self._url}"

    def _start(self, name: str) -> Child:
        return self._server.start(
            "outbox_workloads:write",
            bug=self._bug,
            url=self._url,
            producer=name,
            following=self._following[name],
            seed=self._rng.getrandbits(32),
        )

    def _look_on(self, timeout_s: float = 0.0) -> None:
        for child in self._onlookers:
            found = child.ready(timeout_s)
            assert found is not None, f"{self._where}: an onlooker has ended"
            self._note(found)

    def _note(self, messages: Iterable[Message]) -> None:
        for message in messages:
            match message:
                case ["contents", *_]:
                    reports.check(self._ledger, message, self._where)
                    stored, _ = reports.contents(message)
                    self._high = stored[0].high
                    self._check_tail([value for _, value in stored[0].records])
                case ["came", offset, kind, number]:
                    assert offset == len(self._came), f"{self._where}: {message}"
                    self._came.append(Value(kind, number))
                case ["crash" | "torn", *_]:
                    raise AssertionError(f"{self._where}: {message}")
                case ["offer", name, first, count]:
                    self._following[name] = first + count
                    reports.note(self._ledger, message)
                case _:
                    reports.note(self._ledger, message)

    def _check_tail(self, stored: list[Value]) -> None:
        came = self._came
        assert came == stored[: len(came)], f"{self._where}: the tail saw something else"


def run(server: ForkServer, seed: int, *, bug: str | None = None) -> int:
    """Kill KILLS_PER_LOG writers of a fresh log, and return how many those were."""
    with tempfile.TemporaryDirectory() as folder:
        outboxes = Outboxes(server, url_in("sqlite", Path(folder, "log")), seed, bug)
        try:
            for _ in range(KILLS_PER_LOG):
                outboxes.kill_one()
            outboxes.finish()
        finally:
            outboxes.close()
    return KILLS_PER_LOG


def sweep(server: ForkServer, *, first: int = 1, stride: int = 1, bug: str | None = None) -> int:
    """Kill a writer at each line, and return how many those were."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = url_in("sqlite", Path(folder, "fresh"))
        server.run("outbox_workloads:create", url=fresh)
        for trial, nth in enumerate(range(first, LINES_MAX, stride)):
            url = copy_of(fresh, Path(folder, str(nth)))
            if _is_killed_at(server, url, nth, bug):
                return trial
    raise AssertionError("the life never came to its end")


def _is_killed_at(server: ForkServer, url: str, nth: int, bug: str | None) -> bool:
    """Return whether it came to its end before that line, and check what it has left."""
    child = server.start("outbox_workloads:be_killed_at_line", url=url, nth=nth, bug=bug)
    messages = list(child.messages())
    child.reap()
    ledger = Ledger()
    messages += server.run("outbox_workloads:read_back", url=url)
    for message in messages:
        assert message[0] not in {"crash", "torn"}, f"line {nth}: {message}"
        if message[0] == "contents":
            reports.check(ledger, message, f"killed at line {nth}")
        else:
            reports.note(ledger, message)
    return any(message[0] == "survived" for message in messages)
