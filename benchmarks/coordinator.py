"""`coordinator.*`: the write coordinator by itself, with a store that does nothing."""

import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from benchmarks.entry import Contender, Entry, now
from benchmarks.events import Sample, made_again, samples
from strandline.values import Durability
from strandline.writes import Channel, Coordinator, Settings

SYNC_S = 0.001
BATCHES = 50

Events = list[Sample]


class ListDelta(msgspec.Struct):
    """Appends to a list. A struct, because one is created for each flush, and structs are fast."""

    context: None
    events: Events = []

    def apply(self, write: Sample) -> None:
        self.events.append(write)

    def size(self) -> int:
        return len(self.events)

    def freeze(self) -> tuple[Events, None]:
        return self.events, self.context

    def reader(self) -> Events:
        return self.events.copy()


class NullFlusher:
    """Writes nothing and syncs nothing."""

    def flush(self, frozen: Events, epochs: range) -> None:
        pass

    def sync(self) -> None:
        pass


class SleepingFlusher(NullFlusher):
    """Takes as long to sync as a good disk does."""

    def sync(self) -> None:
        time.sleep(SYNC_S)


class FreeBracket:
    """The bracket of a store without other users."""

    def enter(self, timeout_s: float, *, may_wait: bool = True) -> None:
        pass

    def leave(self) -> None:
        pass


ListCoordinator = Coordinator[Sample, None, Events, Events, None, None]


def new_coordinator(flusher: NullFlusher, bracket: FreeBracket | None = None) -> ListCoordinator:
    """Return a coordinator with one channel, `events`."""
    return Coordinator(
        Settings(),
        ["events"],
        context=None,
        snapshot=None,
        delta=ListDelta,
        flusher=flusher,
        bracket=bracket,
    )


# --- one producer, written ---


def single(scratch: Path) -> Mapping[str, Contender]:
    """One thread writes event after event and waits for each to be written."""
    events = samples(1_000)
    return {
        "ours": lambda: _single_ours(events),
        "raw": lambda: _single_raw(events, scratch / "raw"),
    }


def bracketed(scratch: Path) -> Mapping[str, Contender]:
    """The same into a store that other processes might share."""
    events = samples(1_000)
    return {
        "ours": lambda: _single_ours(events, FreeBracket()),
        "raw": lambda: _single_raw(events, scratch / "raw"),
    }


def _single_ours(events: Events, bracket: FreeBracket | None = None) -> float:
    with new_coordinator(NullFlusher(), bracket) as coordinator:
        write, level = coordinator.channel("events").write, Durability.WRITTEN
        elapsed_s = 0.0
        for batch in made_again(events, BATCHES):
            started = now()
            for event in batch:
                write(event, level)
            elapsed_s += now() - started
    return BATCHES * len(events) / elapsed_s


def _single_raw(events: Events, path: Path) -> float:
    """Encode and write each event: JSON arrays need no separator."""
    encode, write = msgspec.json.Encoder().encode, os.write
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    try:
        elapsed_s = 0.0
        for batch in made_again(events, BATCHES):
            started = now()
            for event in batch:
                write(fd, encode(event))
            elapsed_s += now() - started
        return BATCHES * len(events) / elapsed_s
    finally:
        os.close(fd)
        path.unlink()


# --- sixteen producers, durable ---


def sixteen(scratch: Path) -> Mapping[str, Contender]:  # noqa: ARG001 - It needs no files.
    """Threads that each wait for every one of their events to be durable."""
    events = samples(200)
    return {
        "ours": lambda: _durable_rate(events, threads=16),
        "one_thread": lambda: _durable_rate(events, threads=1),
    }


def _durable_rate(events: Events, threads: int) -> float:
    with (
        new_coordinator(SleepingFlusher()) as coordinator,
        ThreadPoolExecutor(threads) as pool,
    ):
        gate = threading.Barrier(threads + 1)
        channel = coordinator.channel("events")
        producers = [pool.submit(_write_durable, channel, events, gate) for _ in range(threads)]
        gate.wait()
        started = now()
        for producer in producers:
            producer.result()
        return threads * len(events) / (now() - started)


def _write_durable(channel: Channel[Sample, None], events: Events, gate: threading.Barrier) -> None:
    gate.wait()
    for event in events:
        channel.write(event, Durability.DURABLE)


ENTRIES = (
    Entry(
        name="coordinator.single",
        unit="events/s",
        contenders=single,
        bars={"raw": 1.2},
        rounds=15,
    ),
    Entry(
        name="coordinator.bracketed",
        unit="events/s",
        contenders=bracketed,
        rounds=15,
    ),
    Entry(
        name="coordinator.sixteen",
        unit="events/s",
        contenders=sixteen,
        bars={"one_thread": 7},
        rounds=5,
    ),
)
