"""Several processes on one tiered log, killed again and again: every record stays readable."""

import random
import select
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.processes.fork_server import PATIENCE_S, Child, ForkServer, HangError
from tests.processes.report import Message
from tests.processes.stores import url_in

TOGETHER = 3
KILLS_PER_LOG = 4
ACTIONS_MAX = 10


class Ledger:
    """What the processes said, held to what the log says in the end."""

    def __init__(self, where: str, *, is_lenient: bool) -> None:
        self.where = where
        self._is_lenient = is_lenient
        self.stored: dict[int, int] = {}

    def note(self, message: Message) -> None:
        match message:
            case ["appended", stored]:
                for offset, number in stored:
                    assert offset not in self.stored, f"{self.where}: {offset} was given twice"
                    self.stored[offset] = number
            case ["shortened"]:
                assert self._is_lenient, f"{self.where}: the catalogue was shortened"
            case ["crash", text]:
                raise AssertionError(f"{self.where}: {text}")
            case ["holds", low, high, found]:
                self._check(low, high, dict(found))
            case ["sound", is_sound]:
                assert is_sound, f"{self.where}: the proof does not hold"

    def _check(self, low: int, high: int, found: dict[int, int]) -> None:
        assert list(found) == list(range(low, high)), f"{self.where}: records are missing"
        for offset, number in self.stored.items():
            assert offset < low or found.get(offset) == number, f"{self.where}: {offset} is lost"


def run(server: ForkServer, scheme: str, seed: int, *, without: Sequence[str] = ()) -> int:
    """Kill KILLS_PER_LOG processes of a fresh log, then check it; return how many were killed."""
    rng = random.Random(seed)
    # With more than the refusal out, what comes of a shorter catalogue has to be found.
    ledger = Ledger(f"{scheme}: seed={seed}", is_lenient=len(without) > 1)
    with tempfile.TemporaryDirectory() as folder:
        url = url_in(scheme, Path(folder, "log"))
        store = f"file://{folder}/cold"
        given: dict[str, Any] = {"url": url, "store": store, "without": list(without)}
        server.run("tiering_processes:create", url=url)
        running = [_started(server, rng, given) for _ in range(TOGETHER)]
        try:
            for left in reversed(range(KILLS_PER_LOG)):
                _kill_one(running, ledger, rng)
                if left >= len(running):
                    running.append(_started(server, rng, given))
        finally:
            for child in running:
                child.kill()
        for message in server.run("tiering_processes:finish", **given):
            ledger.note(message)
    return KILLS_PER_LOG


def _started(server: ForkServer, rng: random.Random, given: dict[str, Any]) -> Child:
    return server.start("tiering_processes:run_workload", seed=rng.getrandbits(32), **given)


def _kill_one(running: list[Child], ledger: Ledger, rng: random.Random) -> None:
    """Hear what all say until they have done a number of things, then kill one of them."""
    wanted = rng.randrange(1, ACTIONS_MAX)
    while wanted > 0:
        speaking = select.select(running, [], [], PATIENCE_S)[0]
        if not speaking:
            raise HangError(f"{ledger.where}: nothing is done any more")
        for child in speaking:
            for message in child.ready() or [["crash", "it has ended by itself"]]:
                ledger.note(message)
                wanted -= message[0] == "did"
    victim = running.pop(rng.randrange(len(running)))
    for message in victim.kill():
        ledger.note(message)
