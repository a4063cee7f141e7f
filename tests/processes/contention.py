"""Several processes write to one partition, and are killed, stopped and locked out."""

import contextlib
import random
import select
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.patience import Patience
from tests.processes import report as reports
from tests.processes.fork_server import PATIENCE_S, Child, ForkServer
from tests.processes.ledger import Ledger
from tests.processes.report import Message
from tests.processes.stores import lock_files, url_in

NUMBERS_EACH = 60
FAULTS_MAX = 12


@dataclass
class WriterProcess:
    """One producer, in the process that it runs in at present."""

    name: str
    child: Child
    is_finished: bool = False
    stopped_until: float | None = None

    def __post_init__(self) -> None:
        self.patience = Patience(self.child.pid, PATIENCE_S)


@dataclass
class Contention:
    """One log, some producers, and what happens to them."""

    server: ForkServer
    scheme: str
    url: str
    seed: int
    bug: str | None = None
    ledger: Ledger = field(default_factory=Ledger)
    writers: list[WriterProcess] = field(default_factory=list)
    faults: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def run(self) -> None:
        """Run the writers to the end, and check what is stored."""
        self.server.run("workloads:create", url=self.url)
        for number in range(self._rng.randrange(2, 5)):
            name = f"f{number}"
            self.writers.append(WriterProcess(name, self._start(name)))
        next_fault = time.monotonic()
        try:
            while not all(writer.is_finished for writer in self.writers):
                self._listen(0.005)
                if self.faults < FAULTS_MAX and time.monotonic() >= next_fault:
                    self._inject_fault()
                    next_fault = time.monotonic() + self._rng.uniform(0.002, 0.03)
        finally:
            for writer in self.writers:
                if not writer.is_finished and writer.child.status is None:
                    writer.child.kill()
        for message in self.server.run("workloads:read_back", url=self.url):
            self._note(message)
        for writer in self.writers:
            numbers = [v.number for v in self.ledger.places if v.producer == writer.name]
            assert sorted(numbers) == list(range(NUMBERS_EACH)), f"{self}: {writer.name}"

    def __str__(self) -> str:
        return f"{self.scheme}: seed={self.seed} faults={self.faults}"

    # --- what happens ---

    def _inject_fault(self) -> None:
        self.faults += 1
        alive = [f for f in self.writers if not f.is_finished and f.stopped_until is None]
        if not alive:
            return
        victim = self._rng.choice(alive)
        chance = self._rng.random()
        if chance < 0.5:
            self._kill(victim)
        elif chance < 0.8:
            victim.child.signal(signal.SIGSTOP)
            victim.stopped_until = time.monotonic() + self._rng.choice([0.01, 0.05, 0.5])
        else:
            for path in lock_files(self.url):
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()

    def _kill(self, writer: WriterProcess) -> None:
        for message in writer.child.kill():
            self._note(message)
        if self._has_finished(writer):
            return
        options: dict[str, Any] = {}
        if self.scheme == "file" and self._rng.random() < 0.3:
            options["take_over"] = True
        writer.child = self._start(writer.name, options)
        writer.patience = Patience(writer.child.pid, PATIENCE_S)

    def _start(self, name: str, options: dict[str, Any] | None = None) -> Child:
        batch = self.ledger.unsettled(name)
        mine = [v.number for v in self.ledger.offers if v.producer == name]
        refused = [n for n in mine if (name, n) in self.ledger.refused]
        following = min(refused) if refused else max(mine, default=-1) + 1
        return self.server.start(
            "concurrent_writers:contend",
            bug=self.bug,
            url=self.url,
            producer=name,
            following=following,
            end=NUMBERS_EACH,
            seed=self._rng.getrandbits(32),
            retry=None if batch is None else (batch.start, len(batch)),
            options=options or {},
        )

    # --- what they say ---

    def _listen(self, timeout_s: float) -> None:
        now = time.monotonic()
        alive = [f for f in self.writers if not f.is_finished]
        for writer in alive:
            if writer.stopped_until is not None and now >= writer.stopped_until:
                writer.child.signal(signal.SIGCONT)
                writer.stopped_until = None
        ready = select.select([f.child for f in alive], [], [], timeout_s)[0]
        for writer in alive:
            if writer.child in ready:
                for message in writer.child.ready() or ():
                    self._note(message)
                    if message[0] == "ack":
                        writer.patience.renew()
                if writer.child.is_ended:
                    status = writer.child.reap()
                    assert self._has_finished(writer), self._unfinished(writer, status)
            elif writer.patience.left_s() <= 0:
                raise writer.child.hang(f"{self}: {writer.name} does not come to its end")

    def _has_finished(self, writer: WriterProcess) -> bool:
        numbers = sum(value.producer == writer.name for value in self.ledger.places)
        writer.is_finished = numbers == NUMBERS_EACH
        return writer.is_finished

    def _unfinished(self, writer: WriterProcess, status: int) -> str:
        stored = {v.number for v in self.ledger.places if v.producer == writer.name}
        missing = sorted({*range(NUMBERS_EACH)} - stored)
        return f"{self}: {writer.name} gave up with status {status}, without {missing}"

    def _note(self, message: Message) -> None:
        match message:
            case ["contents", *_]:
                reports.check(self.ledger, message, str(self))
            case ["crash", text]:
                raise AssertionError(f"{self}: {text}")
            case ["refused", _, _, _, kind, text] if kind not in {
                "UnavailableError",
                "ClosedError",
            }:
                raise AssertionError(f"{self}: {kind}: {text}")
            case ["unknown", *_] if self.scheme == "sqlite":
                raise AssertionError(f"{self}: no process takes over there: {message}")
            case _:
                reports.note(self.ledger, message)


def run(server: ForkServer, scheme: str, seed: int, *, bug: str | None = None) -> None:
    """Run concurrent writers on a fresh log."""
    with tempfile.TemporaryDirectory() as folder:
        Contention(server, scheme, url_in(scheme, Path(folder, "log")), seed, bug).run()
