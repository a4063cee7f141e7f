"""`append.*`: events into a log, beside what a careful user would do with the engine alone."""

import sqlite3
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

import msgspec

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import Sample, samples

THREADS = 16
BATCH = 1_000

_CREATE = (
    "CREATE TABLE events (id INTEGER PRIMARY KEY, kind TEXT, key TEXT, payload BLOB,"
    " headers BLOB, at_us INTEGER)"
)
_INSERT = "INSERT INTO events (kind, key, payload, headers, at_us) VALUES (?, ?, ?, ?, ?)"

Events = list[Sample]
#: Opens a place of its own and returns how to write to it, and how to end.
Opened = tuple[Callable[[Events], None], Callable[[], None]]

_encode = msgspec.json.Encoder().encode
_numbers = count()


def event_of(sample: Sample) -> sl.Event:
    """Return the sample as our users make it."""
    return sl.Event(sample.kind, sample.payload, key=sample.key, headers=sample.headers)


def row_of(sample: Sample) -> tuple[object, ...]:
    """Return the sample as a row."""
    return (
        sample.kind,
        sample.key,
        _encode(sample.payload),
        _encode(sample.headers),
        sample.occurred_at_us,
    )


# --- ours ---


def open_ours(path: Path, durability: sl.Durability, *, batched: bool) -> Opened:
    """Return a `sqlite:` log with one topic."""
    log = sl.open(f"sqlite:{path}")
    log.create_topic("events")

    def write(events: Events) -> None:
        if batched:
            log.append_many("events", [event_of(e) for e in events], durability=durability)
        else:
            for event in events:
                log.append("events", event_of(event), durability=durability)

    return write, log.close


# --- SQLite alone: one table, WAL, one transaction for each call ---


def open_plain(path: Path, durability: sl.Durability, *, batched: bool) -> Opened:
    """Return a table; each thread that writes has a connection of its own."""
    local = threading.local()
    connections: list[sqlite3.Connection] = []

    def connection() -> sqlite3.Connection:
        if not hasattr(local, "connection"):
            made = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            level = "FULL" if durability is sl.Durability.DURABLE else "NORMAL"
            made.execute("PRAGMA journal_mode = WAL")
            made.execute(f"PRAGMA synchronous = {level}")
            connections.append(made)
            local.connection = made
        mine: sqlite3.Connection = local.connection
        return mine

    connection().execute(_CREATE)

    def write(events: Events) -> None:
        mine = connection()
        if batched:
            mine.execute("BEGIN IMMEDIATE")
            mine.executemany(_INSERT, [row_of(event) for event in events])
            mine.execute("COMMIT")
        else:
            for event in events:
                mine.execute(_INSERT, row_of(event))

    def close() -> None:
        for each in connections:
            each.close()

    return write, close


# --- rounds ---


def contenders(
    scratch: Path, *, durability: sl.Durability, events: int, batch: int = 1, threads: int = 1
) -> Mapping[str, Contender]:
    """Return the two ways to write `events` events from each thread."""
    made = samples(events)
    pieces = [made[at : at + batch] for at in range(0, events, batch)]
    open_each = {"ours": open_ours, "sqlite": open_plain}
    return {
        name: partial(_rate, opening, scratch, durability, pieces, threads)
        for name, opening in open_each.items()
    }


def _rate(
    opening: Callable[..., Opened],
    scratch: Path,
    durability: sl.Durability,
    pieces: list[Events],
    threads: int,
) -> float:
    path = scratch / f"{next(_numbers)}.db"
    write, close = opening(path, durability, batched=len(pieces[0]) > 1)
    gate = threading.Barrier(threads + 1)

    def produce() -> None:
        gate.wait()
        for piece in pieces:
            write(piece)

    try:
        with ThreadPoolExecutor(threads) as pool:
            producers = [pool.submit(produce) for _ in range(threads)]
            gate.wait()
            started = now()
            for producer in producers:
                producer.result()
            elapsed_s = now() - started
    finally:
        close()
        for left in path.parent.glob(f"{path.name}*"):
            left.unlink()
    return threads * sum(map(len, pieces)) / elapsed_s


def _entry(name: str, bar: float, each: Callable[[Path], Mapping[str, Contender]]) -> Entry:
    return Entry(
        name=f"append.sqlite.{name}",
        unit="events/s",
        contenders=each,
        bars={"sqlite": bar},
        rounds=5,
    )


_WRITTEN, _DURABLE = sl.Durability.WRITTEN, sl.Durability.DURABLE

ENTRIES = (
    _entry("single.written", 0.6, partial(contenders, durability=_WRITTEN, events=3_000)),
    _entry("single.durable", 0.6, partial(contenders, durability=_DURABLE, events=1_000)),
    _entry(
        "batch1000.written",
        0.6,
        partial(contenders, durability=_WRITTEN, events=20 * BATCH, batch=BATCH),
    ),
    _entry(
        "batch1000.durable",
        0.6,
        partial(contenders, durability=_DURABLE, events=20 * BATCH, batch=BATCH),
    ),
    _entry(
        "sixteen.durable",
        2,
        partial(contenders, durability=_DURABLE, events=100, threads=THREADS),
    ),
)
