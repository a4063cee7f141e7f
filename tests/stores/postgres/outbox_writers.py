"""Writers with rows of their own, delays and aborts; and what must hold of rows and events."""

import contextlib
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

import strandline as sl

TOPIC = "orders"
PARTITIONS = 2


class ChangedMindError(Exception):
    """Leaves a block, or a savepoint, that is not to be kept."""


class OutboxWriter:
    """Writes rows and events about them, some in savepoints, some taken back."""

    def __init__(self, log: sl.Log, url: str, name: str, rows: int, seed: int) -> None:
        self._log = log
        self._url = url
        self._name = name
        self._rows = rows
        self._rng = random.Random(f"{seed} {name}")
        self.receipts: dict[str, sl.Receipt] = {}
        self.undone: list[sl.Receipt] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            # As a pooler needs it, which one of the tests has in between.
            with psycopg.connect(self._url, prepare_threshold=None) as connection:
                number = 0
                while number < self._rows:
                    ids = range(number, min(number + self._rng.randrange(1, 6), self._rows))
                    self._block(connection, ids)
                    number = ids.stop
        except BaseException as error:  # noqa: BLE001 - The checker raises it.
            self.error = error

    def _block(self, connection: "psycopg.Connection[tuple[object, ...]]", ids: range) -> None:
        kept: dict[str, sl.Receipt] = {}
        undone: list[sl.Receipt] = []
        rng = self._rng
        try:
            with self._log.transaction(connection):
                for number in ids:
                    key = f"{self._name}-{number}"
                    with contextlib.suppress(ChangedMindError), connection.transaction():
                        connection.execute("INSERT INTO shop_orders VALUES (%s)", (key,))
                        if rng.random() < 0.1:
                            time.sleep(rng.random() * 0.002)
                        receipt = self._log.append(TOPIC, sl.Event("order", {"key": key}))
                        if rng.random() < 0.2:
                            undone.append(receipt)
                            raise ChangedMindError
                        kept[key] = receipt
                if rng.random() < 0.2:
                    raise ChangedMindError
        except ChangedMindError:
            undone.extend(kept.values())
        else:
            self.receipts.update(kept)
        self.undone.extend(undone)


def write_from_many(url: str, writers: int, rows: int, seed: int) -> int:
    """Have writers write so many rows each, while a reader follows; return how many were kept."""
    with sl.open(url) as log, sl.open(url) as other, psycopg.connect(plain(url)) as connection:
        log.create_topic(TOPIC, partitions=PARTITIONS)
        connection.execute("CREATE TABLE IF NOT EXISTS shop_orders (key text PRIMARY KEY)")
        connection.commit()
        each = [
            OutboxWriter(log, plain(url), f"{seed}.{number}", rows, seed)
            for number in range(writers)
        ]
        follower = TailReader(other)
        everyone: list[OutboxWriter | TailReader] = [*each, follower]
        threads = [threading.Thread(target=one.run) for one in everyone]
        for thread in threads:
            thread.start()
        for thread in threads[:-1]:
            thread.join()
        follower.finish([log.marks(TOPIC, number).high for number in range(PARTITIONS)])
        threads[-1].join()
        for one in everyone:
            if one.error is not None:
                raise one.error
        _check(each, follower, connection, seed)
    return len(follower.found)


class TailReader:
    """Follows the topic, and holds that no offset is skipped."""

    def __init__(self, log: sl.Log) -> None:
        self._log = log
        self._ends: Sequence[int] | None = None
        self.found: dict[str, tuple[int, int]] = {}
        self.error: BaseException | None = None

    def finish(self, ends: Sequence[int]) -> None:
        """Have it end where the partitions do."""
        self._ends = ends

    def run(self) -> None:
        try:
            self._follow()
        except BaseException as error:  # noqa: BLE001 - The checker raises it.
            self.error = error

    def _follow(self) -> None:
        seen = [0] * PARTITIONS
        with self._log.subscribe(TOPIC, start=sl.EARLIEST) as subscription:
            while self._ends is None or any(
                at < end for at, end in zip(seen, self._ends, strict=True)
            ):
                record = subscription.next(timeout_s=0.2)
                if record is None:
                    continue
                assert record.offset == seen[record.partition], "an offset was skipped"
                seen[record.partition] += 1
                key = record.payload["key"]
                assert key not in self.found, f"stored twice: {key}"
                self.found[key] = record.partition, record.offset


def _check(
    writers: Sequence[OutboxWriter],
    follower: TailReader,
    connection: "psycopg.Connection[tuple[object, ...]]",
    seed: int,
) -> None:
    rows = connection.execute("SELECT key FROM shop_orders WHERE key LIKE %s", (f"{seed}.%",))
    assert {key for (key,) in rows} == follower.found.keys(), "rows and events differ"
    receipts = {key: one for writer in writers for key, one in writer.receipts.items()}
    assert {key: (one.partition, one.offset) for key, one in receipts.items()} == follower.found
    for writer in writers:
        for receipt in writer.undone:
            with contextlib.suppress(sl.InvalidError):
                raise AssertionError(f"an append that was undone has the offset {receipt.offset}")


def plain(url: str) -> str:
    """Return the URL as other clients understand it."""
    return url.partition("&schema=")[0]


PROCESS = """
import sys
import psycopg
import strandline as sl
from tests.stores.postgres.outbox_writers import TOPIC, plain

url, name = sys.argv[1:]
with sl.open(url) as log, psycopg.connect(plain(url)) as connection:
    for number in range(1_000_000):
        key = f"{name}-{number}"
        with log.transaction(connection):
            connection.execute("INSERT INTO shop_orders VALUES (%s)", (key,))
            receipt = log.append(TOPIC, sl.Event("order", {"key": key}))
        print(key, receipt.partition, receipt.offset, flush=True)
"""


def kill_block_processes(url: str, kills: int, seed: int) -> int:
    """Kill processes in the midst of their blocks; return how many blocks were acknowledged."""
    rng = random.Random(seed)
    acknowledged: dict[str, tuple[int, int]] = {}
    with sl.open(url) as log, psycopg.connect(plain(url)) as connection:
        log.create_topic(TOPIC, partitions=PARTITIONS)
        connection.execute("CREATE TABLE IF NOT EXISTS shop_orders (key text PRIMARY KEY)")
        connection.commit()
        for life in range(kills):
            process = subprocess.Popen(
                [sys.executable, "-c", PROCESS, url, f"{seed}.{life}"],
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[3],
            )
            assert process.stdout is not None
            with process:
                for _ in range(rng.randrange(1, 30)):
                    _note(acknowledged, process.stdout.readline())
                process.kill()
                for line in process.stdout:
                    _note(acknowledged, line)
        found = {
            record.payload["key"]: (partition, record.offset)
            for partition in range(PARTITIONS)
            for record in log.read(TOPIC, partition, 0)
        }
        rows = connection.execute("SELECT key FROM shop_orders WHERE key LIKE %s", (f"{seed}.%",))
        assert {key for (key,) in rows} == found.keys(), "rows and events differ"
        assert acknowledged.items() <= found.items(), "an acknowledged event is lost or moved"
    return len(acknowledged)


def _note(acknowledged: dict[str, tuple[int, int]], line: str) -> None:
    # The last line of a killed process may be cut short.
    if line.endswith("\n"):
        key, partition, offset = line.split()
        acknowledged[key] = int(partition), int(offset)
