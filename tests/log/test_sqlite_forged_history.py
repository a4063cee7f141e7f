"""A SQLite log whose history was rewritten, with every checksum right."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.log.chain import Chain, link
from strandline.log.history import EventBody
from strandline.stores.sqlite.appends import SqliteDelta
from strandline.stores.sqlite.chain_values import ValueRow, store_values, value_row
from strandline.stores.sqlite.checksum import record_crc
from strandline.stores.sqlite.partition_row import PartitionRow, store_partitions
from strandline.stores.sqlite.trimming import Trimming
from strandline.values import Event, ProofHead, ProofReport, ValueKind
from tests.logs import sqlite_log
from tests.planting import Bug

EVENTS = 9

#: A record's row, but for its place and its checksum.
Content = list[Any]
Forgery = Callable[[list[Content]], list[Content]]

TIMESTAMP, KEY, VALUE = 0, 1, 4
INSERT = "INSERT INTO strandline_records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def change_a_byte(rows: list[Content]) -> list[Content]:
    rows[4][VALUE] = rows[4][VALUE].replace(b"4", b"7")
    return rows


def change_a_key(rows: list[Content]) -> list[Content]:
    rows[4][KEY] = "key-5"
    return rows


def change_a_timestamp(rows: list[Content]) -> list[Content]:
    rows[4][TIMESTAMP] = rows[5][TIMESTAMP]
    return rows


def drop_a_record(rows: list[Content]) -> list[Content]:
    return [*rows[:4], *rows[5:]]


def swap_two_records(rows: list[Content]) -> list[Content]:
    rows[4][1:], rows[5][1:] = rows[5][1:], rows[4][1:]
    return rows


def insert_a_record(rows: list[Content]) -> list[Content]:
    return [*rows[:4], [rows[3][TIMESTAMP], *rows[2][1:]], *rows[4:]]


FORGERIES = [
    change_a_byte,
    change_a_key,
    change_a_timestamp,
    drop_a_record,
    swap_two_records,
    insert_a_record,
]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.sqlite")


@pytest.fixture
def head(path: str) -> ProofHead:
    """Return the head of a log with a few events."""
    return make(path)


def make(path: str) -> ProofHead:
    with sqlite_log(path) as log:
        log.create_topic("orders", proof=True)
        for number in range(EVENTS):
            log.append("orders", Event("order.created", {"n": number}, key=f"key-{number}"))
        return log.proof_head("orders", 0)


def rewrite(path: str, forge: Forgery, *, with_chain: bool) -> None:
    """Replace the records by the result of `forge`, and store the new end."""
    with sqlite_log(path) as log:
        topic = log.topic("orders")
        chain = Chain(log.id, topic.id, 0, ValueKind.EVENT)
    with sqlite3.connect(path) as database:
        stored = database.execute("SELECT * FROM strandline_records ORDER BY place").fetchall()
        rows = forge([list(row[1:-1]) for row in stored])
        database.execute("DELETE FROM strandline_records")
        for offset, row in enumerate(rows):
            crc = record_crc(topic.id.bytes, 0, offset, row[0], tuple(row[1:]))
            database.execute(INSERT, (offset, *row, crc))
        # A partition's row may lag behind its records, but not be ahead of them.
        store_partitions(database, [PartitionRow(0)])
        if with_chain:
            database.execute("DELETE FROM strandline_proofs")
            store_values(database, values_of(chain, rows))
    database.close()


def values_of(chain: Chain, rows: list[Content]) -> Iterator[ValueRow]:
    """Yield the values of a chain over other records than before."""
    value = chain.origin
    for offset, (timestamp_us, key, tenant, kind, payload, headers, at_us, _) in enumerate(rows):
        body = EventBody(kind, payload, headers or b"{}", at_us)
        value = link(value, chain.digest(offset, timestamp_us, key, tenant, body))
        yield value_row(0, offset, value)


def verified(path: str, *expected: ProofHead) -> ProofReport:
    with sqlite_log(path, mode="read") as log:
        (report,) = log.verify("orders", expected=expected)
    return report


@pytest.mark.parametrize("with_chain", [False, True])
def test_the_forger_can_write_what_was_there(path: str, head: ProofHead, with_chain: bool) -> None:
    rewrite(path, lambda rows: rows, with_chain=with_chain)

    assert verified(path, head).head == head


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_change_with_right_checksums_is_found_in_its_place(
    path: str, head: ProofHead, forge: Forgery
) -> None:
    rewrite(path, forge, with_chain=False)

    report = verified(path)

    with sqlite_log(path, mode="read") as log:
        assert sum(1 for _ in log.read("orders", 0, 0)) == report.records, "no checksum says it"
    assert report.findings[0].offset == 4
    assert report.head is None
    assert not verified(path, head).is_sound


@pytest.mark.parametrize("forge", [*FORGERIES, lambda rows: rows[:-1]])
def test_a_change_with_a_new_chain_is_found_by_the_head_that_was_kept(
    path: str, head: ProofHead, forge: Forgery
) -> None:
    rewrite(path, forge, with_chain=True)

    report = verified(path, head)

    assert verified(path).is_sound, "nothing in the log itself says anything"
    assert len(report.findings) == 1
    assert report.head is None


def test_damage_is_a_finding_and_the_rest_is_checked(path: str, head: ProofHead) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE strandline_records SET key = 'other' WHERE place = 2")
        database.execute("DELETE FROM strandline_records WHERE place IN (4, 5)")
        database.execute("UPDATE strandline_proofs SET value = x'00' WHERE place = 7")
    database.close()

    report = verified(path, head)

    assert [finding.offset for finding in report.findings] == [2, 4, 7]
    assert report.records == EVENTS - 3


def test_appends_continue_after_damage_at_the_end(path: str, head: ProofHead) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM strandline_proofs WHERE place = ?", (EVENTS - 1,))
    database.close()

    with sqlite_log(path) as log:
        log.append("orders", Event("order.created", {"n": EVENTS}))
        log.append("orders", Event("order.created", {"n": EVENTS}))
        (report,) = log.verify("orders")

    assert head.offset == EVENTS
    assert report.findings[0].offset == EVENTS - 1
    assert report.records == EVENTS + 2


def test_only_topics_with_a_proof_have_a_table_for_it(tmp_path: Path) -> None:
    path = str(tmp_path / "plain.sqlite")
    with sqlite_log(path) as log:
        log.create_topic("orders")
        log.append("orders", Event("order.created", {"n": 0}))
    assert "strandline_proofs" not in tables(path)

    with sqlite_log(path) as log:
        proved = log.create_topic("proved", proof=True)
        log.append_many("proved", [Event("order.created", {"n": 0})] * 3)
        log.trim("proved", 0, 2)
        assert rows_of(path) == 2, "the anchor, and the record kept"
        log.drop_topic(proved)
    assert rows_of(path) == 0


def tables(path: str) -> set[str]:
    with sqlite3.connect(path) as database:
        found = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    database.close()
    return found


def rows_of(path: str) -> int:
    with sqlite3.connect(path) as database:
        (count,) = database.execute("SELECT count(*) FROM strandline_proofs").fetchone()
    database.close()
    return int(count)


@pytest.mark.parametrize(
    "bug",
    [
        Bug(
            "no anchor is kept",
            Trimming,
            "_remove_some",
            "place(slot, low - 1)",
            "place(slot, low)",
        ),
        Bug(
            "each drain begins the chain again",
            SqliteDelta,
            "_link",
            "_ or self._load_value(...)",
            "(self._load_value(entry, partition)[0], b'')",
        ),
    ],
    ids=str,
)
def test_a_planted_bug_is_found(path: str, bug: Bug) -> None:
    with bug.planted():
        make(path)
        with sqlite_log(path) as log:
            log.trim("orders", 0, 3)

    assert not verified(path).is_sound
