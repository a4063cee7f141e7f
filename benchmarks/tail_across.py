"""`tail.across.*`: from a publisher to subscribers that are each a process of its own."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import msgspec

import strandline as sl
from benchmarks.crew import crew
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import Sample, samples
from benchmarks.inotify import Inotify
from benchmarks.latency import Rounds, latencies_us, publish
from benchmarks.producing import fresh
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from benchmarks.stores.sqlite import SqliteTable, sample_of
from benchmarks.stores.store import PublisherOpening
from strandline.values import Durability

POLL_S = 0.001
LENGTH_BYTES = 4

Subscriber = Callable[[Connection, Path, int], None]
"""Receives the event that is there, says that it is ready, receives so many more events, and
sends when each of them came."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Sample).decode


class Way(NamedTuple):
    """A way of sending events from one process to others."""

    opening: PublisherOpening
    subscriber: Subscriber


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `tail.across.`: the latency of a subscriber."""
    return (*_percentiles("one", 1, sizes), *_percentiles("eight", sizes.eight, sizes))


def _percentiles(number: str, subscribers: int, sizes: Sizes) -> tuple[Entry, ...]:
    ways = {
        "ours": Way(ours.shared, follow_ours),
        "inotify": Way(LengthsFile, _follow_file),
        "sqlite": Way(SqliteTable, _poll_table),
    }
    rounds = {
        name: Rounds(partial(_deliver, way, subscribers, sizes.tail_events))
        for name, way in ways.items()
    }
    return tuple(
        Entry(
            name=f"tail.across.{number}.p{percentile}",
            unit="µs",
            contenders=partial(_contenders, rounds, percentile),
            bars=bars,
        )
        for percentile, bars in (
            # Waking eight processes takes time: bare inotify is five times as fast
            # as a table that is polled each millisecond. So inotify is their only bar.
            (50, {"inotify": 0.8, "sqlite": 6} if subscribers == 1 else {"inotify": 0.6}),
            (99, {"inotify": 0.6, "sqlite": 3}),
        )
    )


def _contenders(
    rounds: Mapping[str, Rounds], percentile: int, scratch: Path
) -> Mapping[str, Contender]:
    return {name: partial(each.percentile, percentile, scratch) for name, each in rounds.items()}


def _deliver(way: Way, subscribers: int, events: int, scratch: Path) -> list[float]:
    with fresh(scratch) as path, closing(way.opening(path, Durability.WRITTEN)) as store:
        # The first event creates files, also with peers, which would delay one event in a hundred.
        store.append(samples(1)[0])
        with crew(way.subscriber, [(path, events)] * subscribers) as members:
            for member in members:
                member.recv()
            begun = publish(store.append, samples(events))
            return latencies_us(begun, [member.recv() for member in members])


# --- ours ---


def follow_ours(parent: Connection, path: Path, events: int) -> None:
    """Receive the first event of a log and so many more, and send when each of these came."""
    came = []
    with (
        sl.open(ours.url_of(path), mode="read") as log,
        sl.subscribe(log, ours.TOPIC) as subscription,
    ):
        next(subscription)
        parent.send("ready")
        for record in subscription:
            came.append(now())
            if record.offset == events:
                break
    parent.send(came)


# --- a bare file, tailed with inotify ---


class LengthsFile:
    """Each event as a JSON array, behind its length: one write for each."""

    def __init__(self, path: Path, durability: Durability) -> None:
        assert durability is Durability.WRITTEN
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT)

    def append(self, sample: Sample) -> None:
        body = _encode(sample)
        os.write(self._fd, len(body).to_bytes(LENGTH_BYTES) + body)

    def close(self) -> None:
        os.close(self._fd)


def _follow_file(parent: Connection, path: Path, events: int) -> None:
    came: list[float] = []
    inotify = Inotify(path)
    with path.open("rb", buffering=0) as file:
        _decode(file.readall()[LENGTH_BYTES:])
        parent.send("ready")
        unread = b""
        while len(came) < events:
            inotify.wait()
            unread += file.readall()
            at = 0
            while at + LENGTH_BYTES <= len(unread):
                end = at + LENGTH_BYTES + int.from_bytes(unread[at : at + LENGTH_BYTES])
                if end > len(unread):
                    break
                _decode(unread[at + LENGTH_BYTES : end])
                came.append(now())
                at = end
            unread = unread[at:]
    inotify.close()
    parent.send(came)


# --- a table, polled each millisecond ---


def _poll_table(parent: Connection, path: Path, events: int) -> None:
    came: list[float] = []
    table = SqliteTable(path, Durability.WRITTEN)
    for row in table.after(0):
        sample_of(row)
    parent.send("ready")
    while len(came) < events:
        for row in table.after(1 + len(came)):
            sample_of(row)
            came.append(now())
        time.sleep(POLL_S)
    table.close()
    parent.send(came)
