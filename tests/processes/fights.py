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

from tests.processes import report as reports
from tests.processes.fork_server import PATIENCE_S, Child, ForkServer, HangError
from tests.processes.ledger import Ledger
from tests.processes.report import Message
from tests.processes.stores import lock_files, url_in

NUMBERS_EACH = 60
BLOWS = 12


@dataclass
class Fighter:
    """One producer, in whichever process it lives at present."""

    name: str
    child: Child
    is_finished: bool = False
    stopped_until: float | None = None
    messages: int = 0


@dataclass
class Fight:
    """One log, some producers, and what happens to them."""

    server: ForkServer
    scheme: str
    url: str
    seed: int
    bug: str | None = None
    ledger: Ledger = field(default_factory=Ledger)
    fighters: list[Fighter] = field(default_factory=list)
    blows: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._deadline = time.monotonic() + PATIENCE_S

    def run(self) -> None:
        """Let them fight to the end, and see what is left."""
        self.server.run("lives:create", url=self.url)
        for number in range(self._rng.randrange(2, 5)):
            name = f"f{number}"
            self.fighters.append(Fighter(name, self._start(name)))
        next_blow = time.monotonic()
        try:
            while not all(fighter.is_finished for fighter in self.fighters):
                self._listen(0.005)
                if self.blows < BLOWS and time.monotonic() >= next_blow:
                    self._strike()
                    next_blow = time.monotonic() + self._rng.uniform(0.002, 0.03)
        finally:
            for fighter in self.fighters:
                if not fighter.is_finished and fighter.child.status is None:
                    fighter.child.kill()
        for message in self.server.run("lives:read_back", url=self.url):
            self._note(message)
        for fighter in self.fighters:
            numbers = [v.number for v in self.ledger.places if v.producer == fighter.name]
            assert sorted(numbers) == list(range(NUMBERS_EACH)), f"{self}: {fighter.name}"

    def __str__(self) -> str:
        return f"{self.scheme}: seed={self.seed} blows={self.blows}"

    # --- what happens ---

    def _strike(self) -> None:
        self.blows += 1
        alive = [f for f in self.fighters if not f.is_finished and f.stopped_until is None]
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

    def _kill(self, fighter: Fighter) -> None:
        for message in fighter.child.kill():
            self._note(message)
        if self._has_finished(fighter):
            return
        options: dict[str, Any] = {}
        if self.scheme == "file" and self._rng.random() < 0.3:
            options["take_over"] = True
        fighter.child = self._start(fighter.name, options)

    def _start(self, name: str, options: dict[str, Any] | None = None) -> Child:
        batch = self.ledger.unsettled(name)
        mine = [v.number for v in self.ledger.offers if v.producer == name]
        refused = [n for n in mine if (name, n) in self.ledger.refused]
        following = min(refused) if refused else max(mine, default=-1) + 1
        return self.server.start(
            "fighters:fight",
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
        if now > self._deadline:
            raise HangError(f"{self}: the fight does not end")
        alive = [f for f in self.fighters if not f.is_finished]
        for fighter in alive:
            if fighter.stopped_until is not None and now >= fighter.stopped_until:
                fighter.child.signal(signal.SIGCONT)
                fighter.stopped_until = None
        ready = select.select([f.child for f in alive], [], [], timeout_s)[0]
        for fighter in alive:
            if fighter.child in ready:
                for message in fighter.child.ready() or ():
                    self._note(message)
                if fighter.child.is_ended:
                    status = fighter.child.reap()
                    assert self._has_finished(fighter), self._unfinished(fighter, status)

    def _has_finished(self, fighter: Fighter) -> bool:
        numbers = sum(value.producer == fighter.name for value in self.ledger.places)
        fighter.is_finished = numbers == NUMBERS_EACH
        return fighter.is_finished

    def _unfinished(self, fighter: Fighter, status: int) -> str:
        stored = {v.number for v in self.ledger.places if v.producer == fighter.name}
        missing = sorted({*range(NUMBERS_EACH)} - stored)
        return f"{self}: {fighter.name} gave up with status {status}, without {missing}"

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
                raise AssertionError(f"{self}: nobody takes over there: {message}")
            case _:
                reports.note(self.ledger, message)


def run(server: ForkServer, scheme: str, seed: int, *, bug: str | None = None) -> None:
    """Have one fight on a fresh log."""
    with tempfile.TemporaryDirectory() as folder:
        Fight(server, scheme, url_in(scheme, Path(folder, "log")), seed, bug).run()
