"""What a Spark driver calls in the sink, in a process that may be killed at any I/O call."""

import contextlib
import json
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from strandline.io import Io, SystemIo
from strandline.log import Log
from strandline.opening import staging_path
from strandline.spark.sink import committing, rolling, staging
from strandline.spark.sink.committing import abort, commit
from strandline.spark.sink.folder import AppFolder
from strandline.spark.sink.intents import Intent, Intents, Progress, Step
from strandline.spark.sink.staging import Staged, Stager
from strandline.testing.faulty_io import FaultyIo, Operation, OperationKind
from strandline.values import Durability, Topic, ValueKind
from tests.logs import tiered_log
from tests.processes.report import Report
from tests.processes.workloads import WRITES

TOPIC = "t"
PARTITIONS = 2
APP = "query"
ROWS = 12
#: The calls that change something: a kill before any other leaves what one before these leaves.
CHANGES: tuple[OperationKind, ...] = (
    *("pwrite", "sync", "sync_directory", "replace", "link", "unlink"),
    *("truncate", "mkdir", "rmdir", "try_lock"),
)

# Loads what Arrow would otherwise load in each child, for seconds.
pa.array([0])


def numbers_of(version: int) -> list[int]:
    """Return what the rows of a batch carry."""
    return [*range(version * ROWS, version * ROWS + ROWS)]


def open_sink_log(url: str, io: Io | None = None) -> Log:
    """Open the log over any io, with everything that the sink asks of one."""
    scheme, _, path = url.partition(":")
    return tiered_log(scheme, path, io=io, lock_timeout_s=20.0)


class Driver:
    """Runs batches as Spark does: tasks, of which one is run twice, then commit."""

    def __init__(self, url: str, io: Io, seed: int) -> None:
        self._log = open_sink_log(url, io)
        path = staging_path(url)
        assert path is not None
        self._folder = AppFolder(path, APP, io=io)
        self._random = random.Random(seed)

    def run(self, version: int, numbers: list[int] | None = None) -> None:
        """Run a batch; its rows come in another order each time."""
        chosen = numbers_of(version) if numbers is None else list(numbers)
        self._random.shuffle(chosen)
        middle = self._random.randrange(len(chosen) + 1)
        self._task(version, 0, chosen[:middle])
        staged = [self._task(version, 0, chosen[:middle]), self._task(version, 1, chosen[middle:])]
        try:
            commit(
                *(self._log, self._folder, version, staged),
                tenant=None,
                durability=Durability.DURABLE,
            )
        except Exception:
            abort(self._folder, staged)
            raise

    def close(self) -> None:
        self._log.close()

    def _task(self, version: int, task: int, numbers: list[int]) -> Staged:
        stager = Stager(
            self._log, self._folder, topic=TOPIC, tenant=None, version=version, task=task
        )
        return stager.stage([rows_of(numbers)] if numbers else [])


def rows_of(numbers: list[int]) -> pa.RecordBatch:
    """Return rows that carry these numbers, spread over both partitions."""
    return pa.record_batch(
        {
            "kind": ["n"] * len(numbers),
            "key": [f"key {n % 5}" for n in numbers],
            "payload": [json.dumps({"n": n}) for n in numbers],
        }
    )


def drive(
    report: Report,
    *,
    url: str,
    first: int,
    end: int,
    seed: int,
    nth: int | None = None,
    halfway: bool = False,
    flaw: str | None = None,
) -> None:
    """Run batches from `first` on; be killed at the `nth` call that changes something."""
    io = FaultyIo(SystemIo())
    if nth is not None:
        io.before(nth, _tear if halfway else _be_killed, kinds=WRITES if halfway else CHANGES)
    with flawed(flaw), small_pieces():
        driver = Driver(url, io, seed)
        for version in range(first, end):
            driver.run(version)
            report.say("commit", version)
        driver.close()
    report.say("survived")


def _be_killed(_: Operation) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _tear(operation: Operation) -> None:
    """Write a half, and end the process."""
    assert operation.data is not None
    assert operation.offset is not None
    fd = os.open(operation.path, os.O_WRONLY)
    os.pwrite(fd, operation.data[: len(operation.data) // 2], operation.offset)
    _be_killed(operation)


@contextlib.contextmanager
def small_pieces() -> Iterator[None]:
    """Have a few rows fill blocks, chunks and groups, so that a batch has several of each."""
    sizes: list[tuple[Any, str, int]] = [
        *((committing, "CHUNK_ROWS", 3), (staging, "BLOCK_ROWS", 2)),
        *((staging, "FILE_BYTES", 3000), (rolling, "GROUP_BYTES", 3000)),
        # Also files of one block become segments.
        (rolling, "SEGMENT_BYTES_MIN", 1),
    ]
    before = [(place, name, getattr(place, name)) for place, name, _ in sizes]
    try:
        for place, name, size in sizes:
            setattr(place, name, size)
        yield
    finally:
        for place, name, size in before:
            setattr(place, name, size)


# --- planted bugs ---


@contextlib.contextmanager
def flawed(name: str | None) -> Iterator[None]:
    """Have one of the FLAWS, or none."""
    if name is None:
        yield
        return
    place, attribute, flaw = FLAWS[name]
    sound = getattr(place, attribute)
    setattr(place, attribute, flaw)
    try:
        yield
    finally:
        setattr(place, attribute, sound)


_sound_intent, _sound_record = committing._intent, Intents.record  # noqa: SLF001


def _append_first(log: Log, folder: AppFolder, *args: Any, **options: Any) -> Intent:
    intent = _sound_intent(log, folder, *args, **options)
    topic = Topic.from_json(intent.topics[0].encode())
    rows = rolling._rows(folder, intent, intent.chunks[0], ValueKind.EVENT)  # noqa: SLF001
    rolling._Step(log, topic, intent, 0, rows).append()  # noqa: SLF001
    return intent


def _append_anonymously(self: Any) -> int:
    receipts = self.log.append_many(
        self.topic,
        self.rows.values,
        partition=self.chunk.partition,
        durability=Durability.DURABLE,
    )
    return int(receipts[len(receipts) - 1].offset) + 1


def _note_nothing(self: Progress, ends: Sequence[int]) -> None:
    self.steps.extend(Step(self.finished + 1 + n, end, 0) for n, end in enumerate(ends))


def _finish_first(self: Intents, intent: Intent) -> Intent:
    recorded = _sound_record(self, intent)
    self.finish(recorded)
    return recorded


def _remove_all(self: Intents, names: Sequence[str]) -> None:
    for name in names:
        self._folder.remove(name)


def _is_always_left(self: Intents, found: Any, *_: Any) -> bool:  # A method's.
    return bool(found.what == "staged")


def _same_for_all(staged: Sequence[Staged]) -> dict[str, tuple[int, int]]:
    return {"any": (0, 0)} if any(each.names for each in staged) else {}


#: Name → where it is, and what is there instead.
FLAWS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "an append before the batch is recorded": (committing, "_intent", _append_first),
    "appends without an identity": (rolling._Step, "append", _append_anonymously),  # noqa: SLF001
    "progress that is not stored": (Progress, "add", _note_nothing),
    "finished before it was begun": (Intents, "record", _finish_first),
    "abort removes a recorded batch": (Intents, "remove_staged", _remove_all),
    "a sweep removes what is named": (Intents, "_is_left", _is_always_left),
    "a ledger without fingerprints": (committing, "_fingerprints", _same_for_all),
}
