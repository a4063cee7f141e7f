"""Processes on one log, one after the other, each killed by SIGKILL at any moment."""

import random
import tempfile
import time
from pathlib import Path

from tests.processes import report as reports
from tests.processes.fork_server import Child, ForkServer
from tests.processes.ledger import Ledger
from tests.processes.report import Message
from tests.processes.stores import url_in

#: After so many, a fresh log: reading everything back each time has to stay cheap.
KILLS_PER_LOG = 25


class Victims:
    """One log, the processes that write it, and what they were promised."""

    def __init__(self, server: ForkServer, url: str, seed: int, bug: str | None = None) -> None:
        self.server = server
        self.url = url
        self.seed = seed
        self.bug = bug
        self.ledger = Ledger()
        self.kills = 0
        self._rng = random.Random(seed)
        self._where = 0
        self._following = 0
        server.run("workloads:create", url=url)

    def kill_one(self) -> None:
        """Start a process that reads everything back and continues, and kill it somewhere."""
        child = self.server.start(
            "workloads:run_workload",
            bug=self.bug,
            url=self.url,
            producer="p",
            following=self._following,
            seed=self._rng.getrandbits(32),
            retry=self._unsettled(),
        )
        if self._rng.random() < 0.25:
            time.sleep(self._rng.uniform(0, 0.012))
        else:
            try:
                self._watch(child, self._rng.randrange(1, 30))
            except BaseException:
                child.kill()
                raise
            time.sleep(self._rng.choice([0, self._rng.uniform(0, 0.002)]))
        for message in child.kill():
            self._note(message)
        self.kills += 1

    def finish(self) -> None:
        """Read everything back in a process that saw none of it."""
        for message in self.server.run("workloads:read_back", url=self.url):
            self._note(message)

    def _watch(self, child: Child, wanted: int) -> None:
        for message in child.messages():
            self._note(message)
            wanted -= message[0] not in {"contents", "offer"}
            if wanted <= 0:
                return

    def _note(self, message: Message) -> None:
        where = f"seed={self.seed} kills={self.kills} url={self.url}"
        match message:
            case ["contents", *_]:
                reports.check(self.ledger, message, where)
            case ["where", partition]:
                self._where = partition
            case ["crash" | "refused" | "unknown", *_]:
                raise AssertionError(f"{where}: {message}")
            case ["offer", "p", first, count, _]:
                self._following = max(self._following, first + count)
                reports.note(self.ledger, message)
            case _:
                reports.note(self.ledger, message)

    def _unsettled(self) -> tuple[int, int, int] | None:
        batch = self.ledger.unsettled("p")
        return None if batch is None else (batch.start, len(batch), self._where)


def run(server: ForkServer, scheme: str, seed: int, *, bug: str | None = None) -> int:
    """Kill KILLS_PER_LOG processes on a fresh log, and return how many those were."""
    with tempfile.TemporaryDirectory() as folder:
        victims = Victims(server, url_in(scheme, Path(folder, "log")), seed, bug)
        for _ in range(KILLS_PER_LOG):
            victims.kill_one()
        victims.finish()
        return victims.kills
