"""Calls the sink as Spark does, in this process: tasks, commit and abort, step by step.

Spark itself runs the same calls in `test_write.py` and `test_write_stream.py`.
"""

import json
import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import strandline as sl
from strandline.spark.sink.committing import abort, commit
from strandline.spark.sink.place import StagingFolder
from strandline.spark.sink.staging import Staged, Stager
from strandline.spark.sink.staging_place import StagingPlace
from strandline.values import Durability


@dataclass
class Sink:
    """A query that writes to `topic`."""

    log: sl.Log
    url: str
    topic: str | None = "t"
    tenant: str | None = None
    app: str = "query"
    staging: str | None = None

    @property
    def place(self) -> StagingPlace:
        return StagingPlace(self.url, self.staging)

    @property
    def folder(self) -> StagingFolder:
        return self.place.folder(self.log.id, self.app)

    def folders(self) -> Iterable[StagingFolder]:
        """Return those of all apps."""
        return self.place.folders(self.log.id)

    def task(self, version: int, rows: pa.RecordBatch, task: int = 0) -> Staged:
        """Run a task, or one more attempt of it."""
        stager = Stager(
            self.log,
            self.folder,
            topic=self.topic,
            tenant=self.tenant,
            version=version,
            task=task,
        )
        staged = stager.stage([rows])
        found: Staged = pickle.loads(pickle.dumps(staged))
        return found

    def commit(self, version: int, staged: Sequence[Staged]) -> None:
        commit(
            *(self.log, self.folder, version, staged),
            tenant=self.tenant,
            durability=Durability.DURABLE,
        )

    def abort(self, staged: Sequence[Staged]) -> None:
        abort(self.folder, staged)

    def write(self, version: int, *tasks: pa.RecordBatch) -> None:
        """Run a whole batch."""
        self.commit(version, [self.task(version, rows, n) for n, rows in enumerate(tasks)])

    def files(self) -> list[str]:
        """Return what lies in the folder, but for what always does."""
        kept = ("lock", "name")
        return [n for n in self.folder.names() if n not in kept] if self.folder.exists() else []


def events(numbers: Sequence[int]) -> pa.RecordBatch:
    """Return rows with a number each, spread over keys."""
    return pa.record_batch(
        {
            "kind": ["n"] * len(numbers),
            "key": [f"key {n % 7}" for n in numbers],
            "payload": [json.dumps({"n": n}) for n in numbers],
        }
    )


def numbers_in(log: sl.Log, topic: str = "t") -> list[int]:
    """Return the number of each record in the topic, sorted."""
    found: list[int] = []
    for partition in range(log.describe_topic(topic).settings.partitions):
        found += [record.payload["n"] for record in log.read(topic, partition, 0)]
    return sorted(found)


def repeated(found: Sequence[Any]) -> dict[Any, int]:
    """Return what is there more than once."""
    return {each: count for each, count in Counter(found).items() if count > 1}
