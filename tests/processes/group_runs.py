"""Groups whose members are killed, stopped and woken, join and leave: what has to hold."""

import contextlib
import random
import signal
import tempfile
import time
from pathlib import Path

from tests.processes.fork_server import Child, ForkServer
from tests.processes.group_members import LEASE_S, NAME, RECORDS
from tests.processes.report import Message
from tests.processes.stores import open_store, url_in
from tests.processes.workloads import PARTITIONS, TOPIC

RUN_S_MAX = 120.0

Place = tuple[int, int]


class GroupHistory:
    """What the members reported, held to the promises of a group."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.acked: dict[Place, int] = {}
        self.refused = 0
        self.killed = 0
        self.stopped = 0
        self.generations = 0
        self._begun: dict[int, tuple[int, float]] = {}
        """Of each partition the latest generation that began a record, and when first."""
        self._in_doubt: set[Place] = set()
        self._running: dict[int, tuple[Place, int]] = {}
        """Of each process the record that it has begun, and in which generation."""
        self._cursors = [0] * PARTITIONS
        self._looked_at = 0.0

    def note(self, pid: int, message: Message) -> None:
        match message:
            case ["begin", partition, offset, generation, at, holds]:
                self._begin(pid, (partition, offset), generation, at, holds=holds)
            case ["acked", partition, offset, generation]:
                self._ack(pid, (partition, offset), generation)
            case ["refused", *_]:
                self.refused += 1
                self._running.pop(pid, None)
            case ["Assigned", partition, generation]:
                self.generations = max(self.generations, generation)
            case ["crash", text]:
                raise AssertionError(f"{self.where}: {text}")

    def kill(self, pid: int) -> None:
        self.killed += 1
        if (running := self._running.pop(pid, None)) is not None:
            # Whether its ack was stored is not known.
            self._in_doubt.add(running[0])

    def look(self, cursors: list[int]) -> None:
        for partition, cursor in enumerate(cursors):
            before = self._cursors[partition]
            assert cursor >= before, f"{self.where}: the cursor of {partition} went back"
        self._cursors = cursors
        self._looked_at = time.monotonic()

    def check(self, cursors: list[int], dead_letters: list[str]) -> None:
        """Everything is over: each record was acked once."""
        assert cursors == [RECORDS] * PARTITIONS, f"{self.where}: {cursors}"
        assert not dead_letters, f"{self.where}: {dead_letters}"
        for partition in range(PARTITIONS):
            for offset in range(RECORDS):
                place = partition, offset
                count = self.acked.get(place, 0)
                is_fine = count == 1 or (count == 0 and place in self._in_doubt)
                assert is_fine, f"{self.where}: {place} was acked {count} times"

    def _begin(self, pid: int, place: Place, generation: int, at: float, *, holds: bool) -> None:
        partition, offset = place
        latest, since = self._begun.get(partition, (0, 0.0))
        if generation > latest:
            self._begun[partition] = generation, at
        elif generation < latest and holds:
            # Messages of two pipes may come in another order than they were sent in.
            assert at < since, f"{self.where}: {place} has two holders, {generation} and {latest}"
        cursor = self._cursors[partition]
        # What was begun before the cursor was looked at may be behind it by now.
        is_late = at > self._looked_at and holds and generation >= latest
        assert offset >= cursor or not is_late, (
            f"{self.where}: {place} came again behind the cursor {cursor}"
        )
        self._running[pid] = place, generation

    def _ack(self, pid: int, place: Place, generation: int) -> None:
        begun = self._running.pop(pid, None)
        assert begun == (place, generation), f"{self.where}: {place} was acked and not begun"
        self.acked[place] = self.acked.get(place, 0) + 1
        assert self.acked[place] == 1, f"{self.where}: {place} was acked twice"


class GroupRun:
    """One log, and the processes of its group."""

    def __init__(
        self, server: ForkServer, url: str, seed: int, members: int, bug: str | None
    ) -> None:
        self._server = server
        self._url = url
        self._rng = random.Random(seed)
        self._members = members
        self._bug = bug
        self._children: list[Child] = []
        self._stopped: dict[int, float] = {}
        self.history = GroupHistory(f"{url}: seed={seed} members={members}")

    def work(self) -> None:
        """Disturb the group until everything was handled."""
        began = time.monotonic()
        with open_store(self._url) as log:
            try:
                while not self._is_done(log):
                    assert time.monotonic() < began + RUN_S_MAX, f"{self.history.where}: it hangs"
                    self._disturb()
                    self._listen(self._rng.uniform(0.02, 0.15))
            finally:
                self._end_all()
        ((_, cursors, letters),) = self._server.run("group_members:cursors", url=self._url)
        self.history.check(cursors, letters)

    def _is_done(self, log: object) -> bool:
        cursors = [log.cursor(TOPIC, NAME, each) or 0 for each in range(PARTITIONS)]  # type: ignore[attr-defined]
        self.history.look(cursors)
        return cursors == [RECORDS] * PARTITIONS

    def _disturb(self) -> None:
        while len(self._children) < self._members:
            self._start()
        running = [each for each in self._children if each.pid not in self._stopped]
        change = self._rng.choice(["kill", "stop", "nothing", "nothing"])
        if running and change == "kill":
            self._kill(self._rng.choice(running))
        elif len(running) > 1 and change == "stop":
            child = self._rng.choice(running)
            child.signal(signal.SIGSTOP)
            self._stopped[child.pid] = time.monotonic() + self._rng.choice([0.1, 3 * LEASE_S])
            self.history.stopped += 1
        self._wake(time.monotonic())

    def _wake(self, now: float) -> None:
        for child in self._children:
            if self._stopped.get(child.pid, now + 1.0) <= now:
                del self._stopped[child.pid]
                child.signal(signal.SIGCONT)

    def _start(self) -> None:
        child = self._server.start(
            "group_members:consume",
            bug=self._bug,
            url=self._url,
            seed=self._rng.getrandbits(32),
            leaves_after=self._rng.choice([5, 30, 1_000]),
        )
        self._children.append(child)

    def _kill(self, child: Child) -> None:
        self._children.remove(child)
        self._stopped.pop(child.pid, None)
        for message in child.kill():
            self.history.note(child.pid, message)
        self.history.kill(child.pid)

    def _listen(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            for child in tuple(self._children):
                messages = child.ready(left_s / len(self._children) / 4)
                for message in messages or ():
                    self.history.note(child.pid, message)
                if messages is None:
                    self._children.remove(child)
                    assert child.reap() == 0, f"{self.history.where}: a member failed"

    def _end_all(self) -> None:
        for child in tuple(self._children):
            with contextlib.suppress(ProcessLookupError):
                child.signal(signal.SIGCONT)
            self._kill(child)


def run(
    server: ForkServer, scheme: str, seed: int, *, members: int = 4, bug: str | None = None
) -> GroupHistory:
    """Let a group handle a log while its members are disturbed, and check it all."""
    with tempfile.TemporaryDirectory() as folder:
        url = url_in(scheme, Path(folder, "log"))
        server.run("workloads:create", url=url)
        server.run("group_members:feed", url=url)
        group = GroupRun(server, url, seed, members, bug)
        group.work()
    return group.history


def check_sleeper(server: ForkServer, scheme: str, *, bug: str | None = None) -> None:
    """A member that sleeps while another handles its record knows it, and is refused."""
    with tempfile.TemporaryDirectory() as folder:
        url = url_in(scheme, Path(folder, "log"))
        server.run("workloads:create", url=url)
        server.run("group_members:feed", url=url)
        sleeper = server.start("group_members:sleep_with_a_record", bug=bug, url=url)
        _, *place = _until(sleeper, "took")
        sleeper.wait_until_stopped()
        other = server.start("group_members:consume", url=url, seed=0, leaves_after=1_000)
        _until(other, "acked", *place)
        sleeper.signal(signal.SIGCONT)
        heard = list(sleeper.messages())
        other.kill()
        sleeper.reap()
    assert heard == [["woke", False], ["refused"]], f"{url}: {heard}"


def _until(child: Child, *wanted: object) -> Message:
    """Return the first message that begins so."""
    for message in child.messages():
        if message[: len(wanted)] == list(wanted):
            return message
    raise AssertionError(f"it ended and never said {wanted}")
