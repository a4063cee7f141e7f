"""`trigger.publish`: batches into a typed topic, beside Arrow's own stream into a file."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

import strandline as sl
from benchmarks.columns import SCHEMA, typed_batches
from benchmarks.entry import Contender, Entry, now
from benchmarks.producing import fresh
from benchmarks.stores import ours

BATCHES = 300
ROWS = 1000


def _publish(scratch: Path) -> Mapping[str, Contender]:
    batches = typed_batches(BATCHES, ROWS)
    return {
        "ours": partial(_published, scratch, batches),
        "named": partial(_published_by_name, scratch, batches),
        "pyarrow": partial(_streamed, scratch, batches),
    }


def _published(scratch: Path, batches: list[pa.RecordBatch]) -> float:
    """Publish with the topic's definition in hand."""
    with fresh(scratch) as path, sl.open(ours.url_of(path)) as log:
        scope = log.scope("acme")
        topic = scope.register("rows", SCHEMA)
        started = now()
        for batch in batches:
            scope.publish(topic, batch)
        return BATCHES * ROWS / (now() - started)


def _published_by_name(scratch: Path, batches: list[pa.RecordBatch]) -> float:
    """Publish to whatever topic the tenant has under the name at that moment."""
    with fresh(scratch) as path, sl.open(ours.url_of(path)) as log:
        scope = log.scope("acme")
        scope.register("rows", SCHEMA)
        started = now()
        for batch in batches:
            scope.publish("rows", batch)
        return BATCHES * ROWS / (now() - started)


def _streamed(scratch: Path, batches: list[pa.RecordBatch]) -> float:
    """Write an IPC stream into a file: each batch is with the system when it returns."""
    with (
        fresh(scratch) as path,
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, SCHEMA) as stream,
    ):
        started = now()
        for batch in batches:
            stream.write_batch(batch)
        return BATCHES * ROWS / (now() - started)


ENTRIES = (
    Entry(
        name="trigger.publish",
        unit="rows/s",
        contenders=_publish,
        bars={"pyarrow": 0.5},
        rounds=7,
    ),
)
