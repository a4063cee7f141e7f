"""A row of a SQLite log is missing, moved or changed: nothing is lost or stored twice."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from strandline.stores.sqlite import identities, keyed
from strandline.stores.sqlite import proving as verifying
from strandline.stores.sqlite.topics import SqliteTopics
from strandline.values import CorruptError, Event
from tests.log import sqlite_rows
from tests.log.sqlite_rows import Written, check
from tests.logs import sqlite_log

TOPIC = "orders"
RECORDS = 20


def event(number: int) -> Event:
    return Event("order", {"n": number})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.sqlite"
    with sqlite_log(str(path)) as log:
        log.create_topic(TOPIC)
        for number in range(RECORDS):
            terms: dict[str, Any] = {"idempotency_key": f"pay-{number:04d}"}
            if number % 2:
                terms = {"producer": "p", "sequence": number}
            log.append(TOPIC, event(number), **terms)
    return path


def execute(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


@pytest.mark.parametrize("missing", [range(1), range(7, 8), range(19, 20), range(15, 20)])
def test_records_that_are_missing_are_an_error_for_every_read_that_wants_them(
    path: Path, missing: range
) -> None:
    execute(
        path,
        "DELETE FROM strandline_records WHERE place >= ? AND place < ?",
        missing.start,
        missing.stop,
    )

    with sqlite_log(str(path), mode="read") as log:
        with pytest.raises(CorruptError):
            list(log.read(TOPIC, 0, 0))
        for number in range(RECORDS):
            if number in missing:
                with pytest.raises(CorruptError):
                    list(log.read(TOPIC, 0, number, number + 1))
            else:
                (record,) = log.read(TOPIC, 0, number, number + 1)
                assert record.value == event(number)


@pytest.mark.parametrize("offset", [0, 7, 19])
@pytest.mark.parametrize("bit", [6, 20, 38])
def test_a_record_that_was_moved_is_an_error_where_it_is_missing(
    path: Path, offset: int, bit: int
) -> None:
    moved = offset ^ 1 << bit
    execute(path, "UPDATE strandline_records SET place = ? WHERE place = ?", moved, offset)

    with sqlite_log(str(path), mode="read") as log:
        for start, end in ((0, None), (offset, offset + 1)):
            with pytest.raises(CorruptError):
                list(log.read(TOPIC, 0, start, end))


WRONGS = {
    "a key is changed": "UPDATE strandline_keys SET key = 'pay-0009' WHERE key = 'pay-0008'",
    "a key is missing": "DELETE FROM strandline_keys WHERE key = 'pay-0008'",
    "a key is another partition's": "UPDATE strandline_keys SET slot = 7 WHERE key = 'pay-0008'",
    "keys are missing": "DELETE FROM strandline_keys",
    "a key's offset is changed": "UPDATE strandline_keys SET start = 3 WHERE key = 'pay-0008'",
    "a producer is missing": "DELETE FROM strandline_producers",
    "a producer is changed": "UPDATE strandline_producers SET producer = 'q'",
    "a sequence is missing": "DELETE FROM strandline_sequences WHERE sequence = 7",
    "a sequence is moved": "UPDATE strandline_sequences SET sequence = 700 WHERE sequence = 7",
}


@pytest.mark.parametrize("wrong", WRONGS)
def test_damaged_identities_are_an_error_where_they_are_needed(path: Path, wrong: str) -> None:
    execute(path, WRONGS[wrong])

    with sqlite_log(str(path)) as log:
        for terms in ({"idempotency_key": "pay-0008"}, {"producer": "p", "sequence": 7}):
            with pytest.raises(CorruptError):
                log.append(TOPIC, event(8), **terms)
        assert log.append(TOPIC, event(20)).offset == RECORDS
        (report,) = log.verify(TOPIC)
        assert not report.is_sound
        assert log.marks(TOPIC, 0).high == RECORDS + 1


@pytest.mark.slow
def test_identities_stay_counted_while_old_ones_are_removed(path: Path) -> None:
    with sqlite_log(str(path)) as log:
        for start in range(RECORDS, RECORDS + 2500, 500):
            many = [event(number) for number in range(start, start + 500)]
            log.append_many(TOPIC, many, producer="p", sequence=start)
        log.create_topic("other")
        log.append("other", event(0), idempotency_key="pay-0000")
        log.drop_topic("other")

    with sqlite_log(str(path)) as log:
        assert log.append(TOPIC, event(8), idempotency_key="pay-0008").offset == 8
        assert log.append(TOPIC, event(0), producer="p", sequence=2519).offset == 2519
        assert all(report.is_sound for report in log.verify(TOPIC))


def test_an_epoch_or_a_topic_whose_row_is_missing_is_an_error(path: Path) -> None:
    execute(path, "DELETE FROM strandline_epochs")
    with sqlite_log(str(path), mode="read") as log, pytest.raises(CorruptError):
        log.epochs(TOPIC, 0)

    execute(path, "DELETE FROM strandline_topics")
    with sqlite_log(str(path)) as log:
        for call in (lambda: log.topic(TOPIC), log.topics, lambda: log.create_topic(TOPIC)):
            with pytest.raises(CorruptError):
                call()


LOST = {
    "deleted": "DELETE FROM strandline_keyed",
    "of another name": "UPDATE strandline_keyed SET key = 'cursors//workes'",
    "of another topic": "UPDATE strandline_keyed SET first_slot = first_slot + 1",
    "changed": "UPDATE strandline_keyed SET value = '{}'",
}


@pytest.mark.parametrize("lost", LOST)
def test_cursors_whose_row_is_lost_are_an_error_where_they_are_needed(
    path: Path, lost: str
) -> None:
    with sqlite_log(str(path)) as log:
        log.ack(TOPIC, "worker", 0, 3)
    execute(path, LOST[lost])

    with sqlite_log(str(path)) as log:
        for call in (
            lambda: log.register(TOPIC, "worker", {0: 0}),
            lambda: log.cursor(TOPIC, "worker", 0),
            lambda: log.ack(TOPIC, "worker", 0, 2),
            lambda: log.consumers(TOPIC),
            lambda: log.trim(TOPIC, 0, 3),
        ):
            with pytest.raises(CorruptError):
                call()
        (report,) = log.verify(TOPIC)
        assert not report.is_sound
        assert log.cursor(TOPIC, "another", 0) is None


def test_a_consumer_whose_cursors_are_lost_can_be_deleted(path: Path) -> None:
    with sqlite_log(str(path)) as log:
        log.ack(TOPIC, "worker", 0, 3)
        log.ack(TOPIC, "other", 0, 2)
    execute(path, "DELETE FROM strandline_keyed WHERE key LIKE '%worker'")

    with sqlite_log(str(path)) as log:
        assert log.delete_consumer(TOPIC, "worker")
        assert not log.delete_consumer(TOPIC, "worker")
        assert [each.consumer for each in log.consumers(TOPIC)] == ["other"]
        assert log.verify(TOPIC)[0].is_sound
        log.register(TOPIC, "worker", {0: 0})
        assert log.cursor(TOPIC, "worker", 0) == 0


def test_the_keys_of_a_dropped_topic_are_gone(path: Path) -> None:
    with sqlite_log(str(path)) as log:
        log.ack(TOPIC, "worker", 0, 3)
        log.drop_topic(TOPIC)

    with closing(sqlite3.connect(path)) as connection:
        for table in ("strandline_keyed", "strandline_keyed_names"):
            count = f"SELECT count(*) FROM {table}"  # noqa: S608 - Our own names.
            assert connection.execute(count).fetchone() == (0,)


def test_a_log_that_has_lost_its_identity_reports_it(path: Path) -> None:
    execute(path, "DELETE FROM strandline_log")

    with pytest.raises(CorruptError, match="identity"):
        sqlite_log(str(path), mode="read")


# --- every row, every column ---


@pytest.mark.slow
def test_some_rows_wrong(tmp_path: Path) -> None:
    whole = sqlite_rows.write(tmp_path, 0)
    chance = random.Random(0)
    some = chance.sample(list(sqlite_rows.damages(whole, chance, columns=2)), 15)

    assert sum(check(whole, damage) for damage in some)


@pytest.mark.heavy
def test_every_row_missing_and_every_column_changed(tmp_path: Path) -> None:
    whole = sqlite_rows.write(tmp_path, 1)
    every = list(sqlite_rows.damages(whole, random.Random(1), columns=None))

    assert sum(check(whole, damage) for damage in every) > len(every) / 2


def nothing(*_: object) -> None:
    return None


BUGS: dict[str, tuple[str, Callable[[], list[AbstractContextManager[Any]]]]] = {
    "missing identities are taken for new writes": (
        "strandline_keys",
        lambda: [
            mock.patch.object(identities, "check_identities", nothing),
            mock.patch.object(verifying, "check_identities", nothing),
        ],
    ),
    "verify does not look at identities": (
        "strandline_keys",
        lambda: [mock.patch.object(verifying, "check_identities", nothing)],
    ),
    "a key that is missing was never put": (
        "strandline_keyed",
        lambda: [mock.patch.object(keyed, "_SELECT_NAMES", f"{keyed._SELECT_NAMES} AND 0")],  # noqa: SLF001
    ),
    "a topic is forgotten with its row": (
        "strandline_topics",
        lambda: [mock.patch.object(SqliteTopics, "_check_count", nothing)],
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_sweep_catches_a_planted_bug(tmp_path: Path, bug: str) -> None:
    table, planted = BUGS[bug]
    whole = sqlite_rows.write(tmp_path, 0)
    with ExitStack() as stack:
        for patch in planted():
            stack.enter_context(patch)

        assert is_caught(whole, table)


def is_caught(whole: Written, table: str) -> bool:
    for damage in list(sqlite_rows.damages(whole, random.Random(0), columns=0)):
        if damage.title.startswith(table):
            try:
                check(whole, damage)
            except AssertionError:
                return True
    return False
