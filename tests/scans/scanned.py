"""Topics for scans, hot, cold and both, over a store that counts what is fetched."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import strandline as sl
from strandline.values import ValueKind
from tests.tiering.faulty_store import FaultyObjects
from tests.tiering.test_reads import VALUES
from tests.tiering.tiered import LogOver, move, opened

PARTITIONS = 2
NUMBERS = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("text", pa.string())])


def topic_of(backend: str, folder: Path, kind: ValueKind, moved: str, count: int = 40) -> LogOver:
    """Return a log with a topic `t` in two partitions, of which `moved` lies in the tier."""
    log = opened(backend, folder, FaultyObjects())
    log.create_topic("t", partitions=PARTITIONS, value_kind=kind)
    for number in range(count):
        if moved == "half" and number == count // 2:
            move(log)
        log.append("t", VALUES[kind](number), partition=number % PARTITIONS)
    if moved == "all":
        move(log)
    return log


def numbers_of(folder: Path, count: int = 60, backend: str = "memory") -> LogOver:
    """Return a log with a topic `t` of numbers, NaN and nulls among them, half of it moved."""
    log = opened(backend, folder, FaultyObjects())
    log.scope().register("t", NUMBERS)
    for number in range(count):
        if number == count // 2:
            move(log)
        odd = [None, float("nan"), -0.0, number / 2][number % 4]
        texts = [None, f"t{number % 5}", ""]
        rows = [[number, None, -number], [odd, float(number), None], texts]
        log.append("t", pa.record_batch(rows, schema=NUMBERS))
    return log


def read_rows(log: sl.Log, topic: str = "t") -> list[Any]:
    """Return what `read_batches` gives of each partition, one after the other."""
    found: list[Any] = []
    for partition in range(log.describe_topic(topic).settings.partitions):
        batches = log.read_batches(topic, partition, log.marks(topic, partition).low)
        found += pa.Table.from_batches(list(batches), schema=batches.schema).to_pylist()
    return found


def fetched(log: LogOver) -> int:
    """Return how many objects were fetched whole since the last time."""
    objects = log.objects
    assert isinstance(objects, FaultyObjects)
    count = objects.calls.count("get")
    objects.calls.clear()
    return count
