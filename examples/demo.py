"""Four threads append to a log, two readers follow it live, a third replays it: nothing is lost.

`make demo DEMO_EVENTS=20000` does more of it.
"""

import asyncio
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import strandline as sl

EVENTS_DEFAULT = 4_000
PARTITIONS = 4
PRODUCERS = 4
SHOWN = 3
TOPIC = "tides"


def main() -> int:
    """Return 0 if every reader got every event once and in order."""
    events = int(os.environ.get("DEMO_EVENTS") or EVENTS_DEFAULT)
    with (
        tempfile.TemporaryDirectory(prefix="strandline-demo-") as folder,
        sl.open(f"file:{folder}/tides") as log,
    ):
        log.create_topic(TOPIC, partitions=PARTITIONS)
        print(
            f"{PRODUCERS} threads append {events} events to {PARTITIONS} partitions in one folder:"
        )
        started = time.monotonic()
        live = [Reader(log, events, shown=SHOWN), Reader(log, events)]
        followers = [thread(live[0].follow), thread(lambda: asyncio.run(live[1].follow_on_loop()))]
        producers = [thread(partial(produce, log, n, events)) for n in range(PRODUCERS)]
        for each in (*producers, *followers):
            each.join()
        elapsed_s = time.monotonic() - started
        log.flush()
        replay = Reader(log, events)
        replay.follow()
        size_bytes = log.describe().size_bytes
    print(f"  {events} appended and followed in {elapsed_s:.2f} s; {size_bytes:,} bytes on disk")
    accounts = {"live, for": live[0], "live, async for": live[1], "replay": replay}
    for name, reader in accounts.items():
        print(f"  {name:16} {reader.account()}")
    return sum(not reader.is_complete() for reader in accounts.values())


class Reader:
    """Follows the topic until it has as many events as are expected, and keeps account."""

    def __init__(self, log: sl.Log, expected: int, shown: int = 0) -> None:
        self._subscription = log.subscribe(TOPIC, start=sl.EARLIEST)
        self._expected = expected
        self._shown = shown
        self._seen: Counter[int] = Counter()
        self._next: Counter[int] = Counter()
        self._gaps = 0

    def follow(self) -> None:
        """Read in a plain loop."""
        for record in self._subscription:
            if self._note(record):
                break

    async def follow_on_loop(self) -> None:
        """Read the same kind of subscription on an event loop."""
        async for record in self._subscription:
            if self._note(record):
                break

    def _note(self, record: sl.Record) -> bool:
        """Take the record down; True when it was the last one expected."""
        self._gaps += record.offset != self._next[record.partition]
        self._next[record.partition] = record.offset + 1
        self._seen[record.payload["number"]] += 1
        count = self._seen.total()
        if count <= self._shown:
            print(f"  {record.partition}:{record.offset} {record.kind} {record.payload}")
        show(count, self._expected)
        return count == self._expected

    def is_complete(self) -> bool:
        """Whether every event came once, and each partition's offsets one after the other."""
        return len(self._seen) == self._seen.total() == self._expected and not self._gaps

    def account(self) -> str:
        """Return what came, what did not, and what came twice."""
        repeated = self._seen.total() - len(self._seen)
        lost = self._expected - len(self._seen)
        return f"read {self._seen.total()}, lost {lost}, repeated {repeated}, gaps {self._gaps}"


def produce(log: sl.Log, number: int, events: int) -> None:
    """Append every fourth event, keyed, so that each gauge keeps its order."""
    for n in range(number, events, PRODUCERS):
        log.append(TOPIC, sl.Event("tide.high", {"number": n}, key=f"gauge-{n % 7}"))


def thread(work: Callable[[], None]) -> threading.Thread:
    """Return a thread that is at work already."""
    started = threading.Thread(target=work)
    started.start()
    return started


def show(done: int, expected: int) -> None:
    """Draw how far it is, for a person at a terminal."""
    if sys.stderr.isatty():
        width = 40 * done // expected
        end = "\r\033[K" if done == expected else ""
        sys.stderr.write(f"\r  [{'~' * width}{' ' * (40 - width)}] {done}{end}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
