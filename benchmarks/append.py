"""`append.*`: events into a log, compared with what a careful user would do without it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

import strandline as sl
from benchmarks.columns import typed_batches
from benchmarks.entry import BEST_PEER, Contender, Entry, now
from benchmarks.producing import (
    batch_rate,
    fresh,
    processes_rate,
    ready_rate,
    single_rate,
    tasks_rate,
    threads_rate,
)
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from benchmarks.stores.delta import DeltaLog
from benchmarks.stores.on_loop import OnLoop
from benchmarks.stores.peers import PEERS
from benchmarks.stores.raw import AsyncGroupCommit, GroupCommit, RawFile
from benchmarks.stores.sqlite import SqliteTable
from benchmarks.stores.store import AsyncOpening, Opening
from strandline.values import Durability

PRODUCERS = 16

WRITTEN, DURABLE = Durability.WRITTEN, Durability.DURABLE


Openings = Mapping[str, Opening]
Measured = Callable[[Path], Mapping[str, Contender]]


def contenders(
    rate: Callable[..., float],
    openings: Openings | Mapping[str, AsyncOpening],
    *arguments: object,
) -> Measured:
    """Return what measures `rate(opening, scratch, *arguments)` for each opening."""

    def made(scratch: Path) -> Mapping[str, Contender]:
        return {
            name: partial(rate, opening, scratch, *arguments) for name, opening in openings.items()
        }

    return made


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `append.`."""
    return (
        *_singles(sizes),
        *_batches(sizes),
        *_sixteen(sizes),
        *_processes(sizes),
        *_sqlite(sizes),
        *_beside_delta(sizes),
    )


def _entry(name: str, measured: Measured, **bars: float) -> Entry:
    return Entry(name=f"append.{name}", unit="events/s", contenders=measured, bars=bars, rounds=5)


def _singles(sizes: Sizes) -> tuple[Entry, ...]:
    beside: Openings = {"raw": RawFile, **PEERS}
    shared: Openings = {"ours": ours.shared, **beside}
    exclusive: Openings = {"ours": ours.exclusive, **beside}
    both: Openings = {**shared, "exclusive": ours.exclusive}
    written = WRITTEN, sizes.singles_written
    durable = DURABLE, sizes.singles_durable
    bars = {"raw": 0.95, BEST_PEER: 1.1}
    return (
        _entry(
            "single.written.exclusive",
            contenders(single_rate, exclusive, *written),
            raw=0.4,
            best_peer=1.3,
        ),
        _entry(
            "single.written.shared",
            contenders(single_rate, both, *written),
            exclusive=0.4,
            best_peer=1.2,
        ),
        _entry("single.durable.exclusive", contenders(single_rate, exclusive, *durable), **bars),
        _entry("single.durable.shared", contenders(single_rate, shared, *durable), **bars),
    )


def _batches(sizes: Sizes) -> tuple[Entry, ...]:
    openings: Openings = {"ours": ours.shared, "raw": RawFile, **PEERS}
    counts = sizes.batches, sizes.batch_events
    events = sizes.batches * sizes.batch_events
    small, large = max(1, sizes.batch_events // 100), 10 * sizes.batch_events
    return (
        _entry(
            "batch10.written",
            contenders(batch_rate, openings, WRITTEN, events // small, small),
            best_peer=1.2,
        ),
        _entry(
            "batch10000.written",
            contenders(batch_rate, openings, WRITTEN, max(2, events // large), large),
            best_peer=1.0,
        ),
        _entry(
            "batch1000.written", contenders(batch_rate, openings, WRITTEN, *counts), best_peer=1.3
        ),
        _entry(
            "batch1000.durable", contenders(batch_rate, openings, DURABLE, *counts), best_peer=1.25
        ),
        _entry(
            "batch1000.partitions16",
            contenders(
                batch_rate,
                {"ours": ours.over_partitions, "partition": ours.shared},
                *(WRITTEN, *counts),
            ),
            partition=0.6,
        ),
        _entry("batch1000.written.ready", contenders(ready_rate, openings, WRITTEN, *counts)),
        _entry("batch1000.durable.ready", contenders(ready_rate, openings, DURABLE, *counts)),
        Entry(
            name="append.arrow10k.written",
            unit="rows/s",
            contenders=partial(_arrow, sizes),
            bars={"pyarrow": 0.8},
            rounds=5,
        ),
    )


def _sixteen(sizes: Sizes) -> tuple[Entry, ...]:
    threads: Openings = {"ours": ours.shared, **PEERS}
    tasks: Mapping[str, AsyncOpening] = {
        "ours": ours.OurAsyncLog,
        "raw": AsyncGroupCommit,
        **{name: partial(OnLoop, opening) for name, opening in PEERS.items()},
    }
    written = WRITTEN, PRODUCERS, sizes.producer_written
    durable = DURABLE, PRODUCERS, sizes.producer_durable
    bars = {"raw": 1.0, BEST_PEER: 5}
    return (
        _entry(
            "sixteen.written.threads",
            # Where no thread waits for a sync, nothing is gained by waiting for other threads.
            contenders(threads_rate, {**threads, "raw": RawFile}, *written),
            best_peer=1.2,
        ),
        _entry("sixteen.written.asyncio", contenders(tasks_rate, tasks, *written), best_peer=1.1),
        _entry(
            "sixteen.durable.threads",
            contenders(threads_rate, {**threads, "raw": GroupCommit}, *durable),
            **bars,
        ),
        _entry("sixteen.durable.asyncio", contenders(tasks_rate, tasks, *durable), **bars),
    )


def _processes(sizes: Sizes) -> tuple[Entry, ...]:
    openings: Openings = {"ours": ours.shared, "sqlite": SqliteTable}
    return tuple(
        _entry(
            f"processes.{durability}",
            contenders(processes_rate, openings, durability, sizes.four, each),
            sqlite=bar,
        )
        for durability, each, bar in (
            (WRITTEN, sizes.producer_written, 3),
            (DURABLE, sizes.producer_durable, 2),
        )
    )


def _sqlite(sizes: Sizes) -> tuple[Entry, ...]:
    openings: Openings = {"ours": ours.in_sqlite, "sqlite": SqliteTable}
    counts = sizes.batches, sizes.batch_events
    singles = partial(contenders, single_rate, openings)
    batches = partial(contenders, batch_rate, openings)
    durable = DURABLE, PRODUCERS, sizes.producer_durable
    return (
        _entry("sqlite.single.written", singles(WRITTEN, sizes.singles_written // 2), sqlite=0.7),
        _entry("sqlite.single.durable", singles(DURABLE, sizes.singles_durable), sqlite=0.7),
        _entry("sqlite.batch1000.written", batches(WRITTEN, *counts), sqlite=0.8),
        _entry("sqlite.batch1000.durable", batches(DURABLE, *counts), sqlite=0.8),
        _entry("sqlite.sixteen.durable", contenders(threads_rate, openings, *durable), sqlite=4),
    )


def _beside_delta(sizes: Sizes) -> tuple[Entry, ...]:
    openings: Openings = {"ours": ours.shared, "delta": DeltaLog}
    counts = sizes.batches, sizes.batch_events
    return (
        _entry("delta.single.written", contenders(single_rate, openings, WRITTEN, sizes.commits)),
        _entry("delta.batch1000.written", contenders(batch_rate, openings, WRITTEN, *counts)),
    )


# --- typed batches ---


def _arrow(sizes: Sizes, scratch: Path) -> Mapping[str, Contender]:
    batches = typed_batches(sizes.arrow_batches, sizes.arrow_rows)
    return {
        "ours": partial(_arrow_ours, scratch, batches),
        "pyarrow": partial(_arrow_stream, scratch, batches),
    }


def _arrow_ours(scratch: Path, batches: list[pa.RecordBatch]) -> float:
    with fresh(scratch) as path, sl.open(ours.url_of(path)) as log:
        log.create_topic("rows", value_kind=sl.ValueKind.BATCH)
        log.append("rows", batches[0])
        started = now()
        for batch in batches:
            log.append("rows", batch)
        return len(batches) * int(batches[0].num_rows) / (now() - started)


def _arrow_stream(scratch: Path, batches: list[pa.RecordBatch]) -> float:
    """An IPC stream directly into the file: each batch is in the page cache when it returns."""
    with (
        fresh(scratch) as path,
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, batches[0].schema) as stream,
    ):
        stream.write_batch(batches[0])
        started = now()
        for batch in batches:
            stream.write_batch(batch)
        return len(batches) * int(batches[0].num_rows) / (now() - started)
