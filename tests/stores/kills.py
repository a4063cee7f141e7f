"""Writers that continue while their server, or they themselves, are killed; and what must hold."""

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import strandline as sl

TOPIC = "orders"
PARTITIONS = 3
ROOT = Path(__file__).parents[2]


class MortalServer(Protocol):
    """A server that can be killed and started again."""

    def kill(self) -> None:
        """Kill it with SIGKILL."""

    def start(self) -> None:
        """Start it, and return once it takes connections."""


@dataclass
class Writer:
    """Appends one event after another, each until it is acknowledged."""

    log: sl.Log
    name: str
    #: Whether it repeats what may be stored, under an idempotency key.
    repeats: bool
    acknowledged: dict[str, tuple[int, int]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        number = 0
        while not self.stop.is_set():
            key = f"{self.name}-{number}"
            event = sl.Event("order", {"key": key}, key=self.name)
            once = key if self.repeats else None
            try:
                receipt = self.log.append(TOPIC, event, durability="durable", idempotency_key=once)
            except (sl.UnavailableError, sl.UnknownError) as error:
                self.errors[type(error).__name__] += 1
                if isinstance(error, sl.UnknownError) and not self.repeats:
                    number += 1
                continue
            self.acknowledged[key] = receipt.partition, receipt.offset
            number += 1


def kill_server_under_writers(
    server: MortalServer, url: str, kills: int, seed: int, *, waiting: str = "connect_timeout_s"
) -> int:
    """Kill the server again and again; return how many appends were acknowledged."""
    rng = random.Random(seed)
    patience: dict[str, Any] = {waiting: 30.0}
    with sl.open(url, **patience) as log:
        log.create_topic(TOPIC, partitions=PARTITIONS)
        writers = [Writer(log, f"writer{number}", repeats=bool(number % 2)) for number in range(4)]
        threads = [threading.Thread(target=each.run) for each in writers]
        for each in threads:
            each.start()
        for _ in range(kills):
            before = sum(len(each.acknowledged) for each in writers)
            wanted = before + rng.randrange(1, 30)
            while sum(len(each.acknowledged) for each in writers) < wanted:
                assert all(each.is_alive() for each in threads), "a writer has ended"
                threading.Event().wait(0.001)
            threading.Event().wait(rng.random() * 0.01)
            server.kill()
            server.start()
        for writer in writers:
            writer.stop.set()
        for each in threads:
            each.join(60)
            assert not each.is_alive(), "a writer hangs"
        check(log, {key: at for each in writers for key, at in each.acknowledged.items()})
    return sum(len(each.acknowledged) for each in writers)


def check(log: sl.Log, acknowledged: dict[str, tuple[int, int]]) -> None:
    """Raise unless each acknowledged event is there once, where its receipt says."""
    found: dict[str, tuple[int, int]] = {}
    for partition in range(PARTITIONS):
        for expected, record in enumerate(log.read(TOPIC, partition, 0)):
            assert record.offset == expected
            key = record.payload["key"]
            assert key not in found, f"stored twice: {key}"
            found[key] = partition, record.offset
    assert acknowledged.items() <= found.items(), "an acknowledged record is lost or moved"


def append_from_two_logs(url: str) -> None:
    """Append from eight threads over two pools of connections; raise unless all is stored."""
    acknowledged: dict[str, tuple[int, int]] = {}
    with sl.open(url) as one, sl.open(url) as two:
        one.create_topic(TOPIC, partitions=PARTITIONS)

        def append(log: sl.Log, name: str) -> None:
            for number in range(40):
                key = f"{name}-{number}"
                event = sl.Event("order", {"key": key}, key="same")
                try:
                    receipt = log.append(TOPIC, event)
                except sl.StrandlineError:
                    continue
                acknowledged[key] = receipt.partition, receipt.offset

        threads = [
            threading.Thread(target=append, args=(log, f"{number}"))
            for number, log in enumerate((one, two) * 4)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(acknowledged) == 40 * len(threads), "appends were refused"
        check(one, acknowledged)


PROCESS = """
import sys
import strandline as sl
from tests.stores.kills import TOPIC

url, name = sys.argv[1:]
with sl.open(url) as log:
    for number in range(1_000_000):
        key = f"{name}-{number}"
        receipt = log.append(TOPIC, sl.Event("order", {"key": key}), idempotency_key=key)
        print(key, receipt.partition, receipt.offset, flush=True)
"""


def kill_writing_processes(url: str, kills: int, seed: int) -> int:
    """Kill processes that append, while a reader follows; return how many were acknowledged."""
    rng = random.Random(seed)
    acknowledged: dict[str, tuple[int, int]] = {}
    with sl.open(url) as log, sl.open(url) as other:
        log.create_topic(TOPIC, partitions=PARTITIONS)
        follower = _Follower(other)
        follower.thread.start()
        for life in range(kills):
            writers = [_process(url, f"p{life}.{number}") for number in range(2)]
            counted = rng.randrange(1, 20)
            for each in writers:
                assert each.stdout is not None
                for _ in range(counted):
                    _note(acknowledged, each.stdout.readline())
            for each in writers:
                each.kill()
            for each in writers:
                assert each.stdout is not None
                with each:
                    for line in each.stdout:
                        _note(acknowledged, line)
        ends = [log.marks(TOPIC, partition).high for partition in range(PARTITIONS)]
        follower.wait(ends)
        check(log, acknowledged)
    return len(acknowledged)


class _Follower:
    """Holds that a subscription sees every offset of each partition once, in order."""

    def __init__(self, log: sl.Log) -> None:
        self._log = log
        self.seen = [0] * PARTITIONS
        self.error: str | None = None
        self._end = threading.Event()
        self._ends: Sequence[int] | None = None
        self.thread = threading.Thread(target=self._follow)

    def _follow(self) -> None:
        with self._log.subscribe(TOPIC, start=sl.EARLIEST) as subscription:
            while self._ends is None or any(
                seen < end for seen, end in zip(self.seen, self._ends, strict=True)
            ):
                record = subscription.next(timeout_s=1.0)
                if record is None:
                    continue
                if record.offset != self.seen[record.partition]:
                    self.error = f"{record.offset} after {self.seen[record.partition]}"
                    return
                self.seen[record.partition] += 1

    def wait(self, ends: Sequence[int]) -> None:
        self._ends = ends
        self.thread.join(60)
        assert self.error is None, self.error
        assert self.seen == list(ends)


def _process(url: str, name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, url, name], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def _note(acknowledged: dict[str, tuple[int, int]], line: str) -> None:
    # The last line of a killed process may be cut short.
    if line.endswith("\n"):
        key, partition, offset = line.split()
        acknowledged[key] = int(partition), int(offset)
