"""`tier.*`: moving records to Parquet and reading them there, beside pyarrow alone."""

import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.sizes import Sizes
from benchmarks.view import BATCH, filled
from strandline.tiering import tier
from tests.logs import file_log

_numbers = itertools.count()


# --- tier.write ---


def writing(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Return a run of `tier`, beside pyarrow writing the same rows it already holds."""
    with filled("memory:", events) as log:
        table = _rows(log)
        values = [record.event for record in log.read("events", 0, 0)]
    return {
        "ours": partial(_tier, scratch, values, events),
        "pyarrow": partial(_write, scratch, table, events),
    }


def _tier(scratch: Path, values: list[sl.Event], events: int) -> float:
    """Copy, sync and read back. Each run has a log of its own, that was sealed."""
    target = f"file://{scratch / f'cold-{next(_numbers)}'}"
    with file_log(str(scratch / f"{next(_numbers)}")) as log:
        log.create_topic("events")
        for at in range(0, events, BATCH):
            log.append_many("events", values[at : at + BATCH])
        log.seal("events")
        started = now()
        report = tier(log, "events", target)
        elapsed_s = now() - started
    assert report.copied_records == events
    return events / elapsed_s


def _write(scratch: Path, table: pa.Table, events: int) -> float:
    path = scratch / f"{next(_numbers)}.parquet"
    started = now()
    pq.write_table(table, path, compression="zstd", row_group_size=64 * 1024)
    return events / (now() - started)


# --- tier.read ---


def reading(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Return a cold read as record batches, beside pyarrow reading the same objects."""
    url = f"file:{scratch / f'{next(_numbers)}'}"
    cold = scratch / f"cold-{next(_numbers)}"
    with filled(url, events) as log:
        tier(log, "events", f"file://{cold}", include_open=True, local_bytes=0)
    objects = sorted(cold.rglob("*.parquet"))
    return {
        "ours": partial(_read, url, events),
        "pyarrow": partial(_read_objects, objects, events),
    }


def _read(url: str, events: int) -> float:
    """Open the log again, so that no object is there from an earlier round."""
    with sl.open(url, mode="read") as log:
        started = now()
        rows = sum(batch.num_rows for batch in log.read_batches("events", 0, 0))
        elapsed_s = now() - started
    assert rows == events
    return events / elapsed_s


def _read_objects(objects: list[Path], events: int) -> float:
    started = now()
    rows = sum(pq.read_table(path).num_rows for path in objects)
    elapsed_s = now() - started
    assert rows == events
    return events / elapsed_s


def _rows(log: sl.Log) -> pa.Table:
    found = log.read_batches("events", 0, 0)
    return pa.Table.from_batches(list(found), schema=found.schema)


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `tier.`."""
    return (
        Entry(
            name="tier.write",
            unit="events/s",
            contenders=partial(writing, events=sizes.tier_events),
            bars={"pyarrow": 0.5},
            rounds=5,
        ),
        Entry(
            name="tier.read",
            unit="events/s",
            contenders=partial(reading, events=sizes.tier_events),
            bars={"pyarrow": 0.5},
            rounds=5,
        ),
    )
