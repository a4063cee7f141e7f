"""`trigger.publish`: batches into a typed topic, beside Arrow's own stream into a file."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

import strandline as sl
from benchmarks.columns import SCHEMA, typed_batches
from benchmarks.entry import Contender, Entry, now
from benchmarks.producing import fresh
from benchmarks.sizes import Sizes
from benchmarks.stores import ours

ROWS = 1000


def _publish(scratch: Path, *, batches: int) -> Mapping[str, Contender]:
    made = typed_batches(batches, ROWS)
    return {
        "ours": partial(_published, scratch, made),
        "named": partial(_published_by_name, scratch, made),
        "pyarrow": partial(_streamed, scratch, made),
    }


def _published(scratch: Path, batches: list[pa.RecordBatch]) -> float:
    """Publish with the definition of the topic."""
    with fresh(scratch) as path, sl.open(ours.url_of(path)) as log:
        scope = log.scope("acme")
        topic = scope.register("rows", SCHEMA)
        started = now()
        for batch in batches:
            scope.publish(topic, batch)
        return len(batches) * ROWS / (now() - started)


def _published_by_name(scratch: Path, batches: list[pa.RecordBatch]) -> float:
    """Publish by the name of the topic."""
    with fresh(scratch) as path, sl.open(ours.url_of(path)) as log:
        scope = log.scope("acme")
        scope.register("rows", SCHEMA)
        started = now()
        for batch in batches:
            scope.publish("rows", batch)
        return len(batches) * ROWS / (now() - started)


def _streamed(scratch: Path, batches: list[pa.RecordBatch]) -> float:
    """Write an IPC stream into a file: each batch is in the page cache when it returns."""
    with (
        fresh(scratch) as path,
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, SCHEMA) as stream,
    ):
        started = now()
        for batch in batches:
            stream.write_batch(batch)
        return len(batches) * ROWS / (now() - started)


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entry of typed topics."""
    entry = Entry(
        name="trigger.publish",
        unit="rows/s",
        contenders=partial(_publish, batches=sizes.typed_batches),
        bars={"pyarrow": 0.5},
        rounds=7,
    )
    return (entry,)
