"""Rows and bytes of a SQLite log that were changed by another program."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from strandline.values import CorruptError, Event
from tests.logs import sqlite_log


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.sqlite")


@pytest.fixture
def log(path: str) -> Iterator[Log]:
    with sqlite_log(path) as log:
        log.create_topic("orders")
        yield log


def events(count: int) -> list[Event]:
    return [Event("order", {"n": number}) for number in range(count)]


@pytest.mark.parametrize(
    "column", ["timestamp_us", "key", "kind", "value", "headers", "size_bytes", "crc"]
)
def test_one_changed_column_is_detected(path: str, log: Log, column: str) -> None:
    log.append_many(
        "orders", [Event("order", {"n": n}, key="a", headers={"h": "x"}) for n in (0, 1)]
    )
    log.close()
    with sqlite3.connect(path) as connection:
        place, old = connection.execute(
            f"SELECT place, {column} FROM strandline_records WHERE place & 1"  # noqa: S608 - Ours.
        ).fetchone()
        new = old + (1 if isinstance(old, int) else old[:1])
        connection.execute(
            f"UPDATE strandline_records SET {column} = ? WHERE place = ?",  # noqa: S608 - Ours.
            (new, place),
        )
    connection.close()

    with sqlite_log(path) as again:
        records = again.read("orders", 0, 0)
        assert next(records).offset == 0
        with pytest.raises(CorruptError) as caught:
            next(records)

        assert (caught.value.file, caught.value.position) == (path, place)


def test_a_flipped_bit_in_a_stored_value_is_detected(path: str, log: Log) -> None:
    log.append_many("orders", [Event("order", {"text": "strand" * 20}) for _ in range(3)])
    log.close()
    content = bytearray(Path(path).read_bytes())
    at = content.rindex(b"strandstrand")
    content[at] ^= 0x20
    Path(path).write_bytes(content)

    with sqlite_log(path) as again, pytest.raises(CorruptError):
        list(again.read("orders", 0, 0))


def test_a_row_that_went_missing_is_detected(path: str, log: Log) -> None:
    log.append_many("orders", events(3))
    log.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM strandline_records WHERE place & 1")
    connection.close()

    with sqlite_log(path) as again:
        assert next(again.read("orders", 0, 2)).offset == 2
        with pytest.raises(CorruptError):
            list(again.read("orders", 0, 0))


def test_a_changed_head_is_detected(path: str, log: Log) -> None:
    log.append_many("orders", events(3))
    log.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE strandline_partitions SET high = 2")
    connection.close()

    with sqlite_log(path) as again:
        with pytest.raises(CorruptError):
            again.append("orders", Event("order"))
        with pytest.raises(CorruptError):
            again.read("orders", 0, 0)
