"""Triggers whose processes are killed again and again: what they have to have done in the end."""

import random
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.processes.fork_server import Child, ForkServer, HangError
from tests.processes.report import Message
from tests.processes.stores import url_in
from tests.processes.trigger_processes import DEAD_LETTER, IDS, KEYS, RECORDS, RETRIES
from tests.processes.workloads import PARTITIONS

KILLS_PER_LOG = 6
DEAD_LETTERS = 5
QUIET_S = 2.0
CALLS_MAX = 20_000

Place = tuple[int, int]


class CallHistory:
    """What the processes said, held to the promises of a trigger."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.ended: dict[Place, int] = defaultdict(int)
        self.cursors = [0] * PARTITIONS
        self._running: set[Place] = set()
        self._counts: dict[Place, int] = {}
        self._begun_as: dict[str, Place] = {}

    def begin_process(self) -> None:
        self._running.clear()
        self._counts.clear()

    def note(self, message: Message) -> None:
        match message:
            case ["cursors", cursors]:
                self._check_cursors(cursors)
            case ["begin", partition, offset, count]:
                self._begin((partition, offset), count)
            case ["failed", partition, offset, _]:
                self._running.remove((partition, offset))
            case ["end", partition, offset, _]:
                self._running.remove((partition, offset))
                self.ended[partition, offset] += 1
                self._handle_id((partition, offset))
            case ["crash", text]:
                raise AssertionError(f"{self.where}: {text}")

    def _check_cursors(self, cursors: list[int]) -> None:
        for partition, cursor in enumerate(cursors):
            assert cursor >= self.cursors[partition], f"{self.where}: a cursor went back"
            for offset in range(cursor):
                place = partition, offset
                assert self._is_dealt_with(place), f"{self.where}: {place} was passed, {cursors}"
        self.cursors = cursors

    def _is_dealt_with(self, place: Place) -> bool:
        """Whether it was handled, or its id was; dead letters are checked later."""
        partition, offset = place
        first = partition, offset % IDS
        return offset % IDS == DEAD_LETTER or place in self.ended or first in self.ended

    def _begin(self, place: Place, count: int) -> None:
        partition, offset = place
        assert offset >= self.cursors[partition], f"{self.where}: {place} was acked before"
        assert count > self._counts.get(place, 0), f"{self.where}: {place} lost its count"
        # A crash that it shared with others is counted, and not charged: one at most.
        assert count <= RETRIES + 2, f"{self.where}: {place} came {count} times"
        self._counts[place] = count
        for earlier in range(offset % KEYS, offset, KEYS):
            assert (partition, earlier) not in self._running, f"{self.where}: {place} overtook"
            assert self._is_dealt_with((partition, earlier)), f"{self.where}: {place} overtook"
        self._running.add(place)

    def _handle_id(self, place: Place) -> None:
        partition, offset = place
        first = self._begun_as.setdefault(f"{partition}.{offset % IDS}", place)
        assert first == place, f"{self.where}: {first} and {place} have one id"


def run(server: ForkServer, scheme: str, seed: int, *, bug: str | None = None) -> int:
    """Kill KILLS_PER_LOG processes on a fresh log, let one finish, and check it all."""
    rng = random.Random(seed)
    history = CallHistory(f"{scheme}: seed={seed}")
    with tempfile.TemporaryDirectory() as folder:
        url = url_in(scheme, Path(folder, "log"))
        server.run("workloads:create", url=url)
        server.run("trigger_processes:feed", url=url)
        for _ in range(KILLS_PER_LOG):
            child = server.start(
                "trigger_processes:handle", bug=bug, url=url, seed=rng.getrandbits(32)
            )
            _run_workload(child, history, rng)
        history.begin_process()
        for message in server.run("trigger_processes:finish", bug=bug, url=url, seed=seed):
            history.note(message)
    assert history.cursors == [RECORDS] * PARTITIONS, f"{history.where}: {history.cursors}"
    dead_letters_expected = [
        (p, n) for p in range(PARTITIONS) for n in (DEAD_LETTER, DEAD_LETTER + IDS)
    ]
    assert sorted(tuple(each) for each in message[1]) == dead_letters_expected, (
        f"{history.where}: {message}"
    )
    return KILLS_PER_LOG


def _run_workload(child: Child, history: CallHistory, rng: random.Random) -> None:
    history.begin_process()
    wanted = rng.randrange(1, 60)
    try:
        for message in child.messages(QUIET_S):
            history.note(message)
            wanted -= 1
            if wanted <= 0:
                break
    except HangError:
        # Its predecessors have left it nothing to do.
        pass
    except BaseException:
        child.kill()
        raise
    time.sleep(rng.choice([0.0, rng.uniform(0, 0.01)]))
    for message in child.kill():
        history.note(message)


def stop_by_signal(server: ForkServer, scheme: str, folder: Path, seed: int, number: int) -> None:
    """Send a signal in the middle; what runs then comes to its end, and no cursor is behind."""
    history = CallHistory(f"{scheme}: seed={seed}")
    url = url_in(scheme, folder)
    server.run("workloads:create", url=url)
    server.run("trigger_processes:feed", url=url)
    nth = random.Random(seed).randrange(2, 20)
    messages = server.run(
        "trigger_processes:handle_until_signalled", url=url, seed=seed, number=number, nth=nth
    )
    for message in messages:
        history.note(message)
    kinds = [message[0] for message in messages]
    assert kinds[-2:] == ["stopped", "cursors"], f"{history.where}: {kinds}"
    assert kinds.count("begin") == kinds.count("end") + kinds.count("failed"), history.where
    assert kinds.count("begin") >= nth, f"{history.where}: {kinds}"
    assert sum(history.cursors), history.where


def kill_redriving(server: ForkServer, url: str, *, bug: str | None = None) -> None:
    """Kill redriving at one I/O call after the other; each dead letter is redriven once.

    A file log has more to do after each death, so the steps grow.
    """
    server.run("workloads:create", url=url)
    server.run("trigger_processes:dead_letter", url=url, count=DEAD_LETTERS)
    nth = 1
    messages: list[Message] = []
    while nth < CALLS_MAX:
        child = server.start("trigger_processes:be_killed_redriving", bug=bug, url=url, nth=nth)
        messages = list(child.messages())
        if child.reap() == 0:
            break
        nth += 1 + nth // 8
    assert messages[-1][0] == "redriven", messages
    ((_, redriven),) = server.run("trigger_processes:report_redriven", url=url)
    assert redriven == list(range(DEAD_LETTERS)), redriven
