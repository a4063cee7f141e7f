"""Declarations of payloads that change while a topic is written, read, tiered and served."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.predicates import PredicateError
from strandline.views.snapshot import binding_of
from tests.logs import memory_log
from tests.tiering.faulty_store import FaultyObjects
from tests.tiering.tiered import move, opened

NUMBERS = pa.schema({"n": pa.int64()})
TEXTS = pa.schema({"n": pa.string()})


def delivered(log: sl.Log, where: str) -> list[int]:
    found = []
    with log.subscribe("t", where=where) as records:
        while (record := records.next(timeout_s=0)) is not None:
            found.append(int(record.offset))
    return found


def test_readers_that_begin_later_have_the_new_declaration() -> None:
    with memory_log() as log:
        log.create_topic("t", payload_schema=NUMBERS)
        log.append_many("t", [sl.Event("k", {"n": each}) for each in (5, "5", 50)])
        with log.subscribe("t", where="payload.n > 10") as earlier:
            log.declare_payload("t", TEXTS)
            log.append("t", sl.Event("k", {"n": 60}))

            assert [next(earlier).offset, next(earlier).offset] == [2, 3]
        assert delivered(log, "startswith(payload.n, '5')") == [0, 1, 2]
        with pytest.raises(PredicateError, match=r"the nearest is payload\.n"):
            log.subscribe("t", where="payload.nn = 1")
        log.declare_payload("t", None)
        assert delivered(log, "payload.nn = 1") == []


@pytest.mark.parametrize("declared", [TEXTS, None], ids=["another", "none"])
def test_objects_of_an_earlier_declaration_hide_nothing(
    tmp_path: Path, declared: pa.Schema | None
) -> None:
    with opened("memory", tmp_path, FaultyObjects()) as log:
        log.create_topic("t", payload_schema=NUMBERS)
        log.append_many("t", [sl.Event("k", {"n": each}) for each in [1, "x", *range(2, 20)]])
        move(log)
        log.declare_payload("t", declared)

        where = "payload.n = 'x'"

        assert delivered(log, where) == [1]
        assert log.scan("t", where=where).to_table()["_offset"].to_pylist() == [1]


class Counted(sl.View[int]):
    name = "counted"
    where = "payload.n > 1"

    def initial(self, partition: int) -> int:
        del partition
        return 0

    def apply(self, state: int, record: sl.Record) -> int:
        del record
        return state + 1


class Everything(Counted):
    where = ""


def test_a_snapshot_is_of_the_declaration_that_its_predicate_was_parsed_with() -> None:
    with memory_log() as log:
        topic = log.create_topic("t")
        views: tuple[Any, ...] = (Counted(), Everything())
        before = [binding_of(log, topic, view) for view in views]
        log.declare_payload("t", NUMBERS)
        after = [binding_of(log, topic, view) for view in views]

        assert [new.continues(old) for new, old in zip(after, before, strict=True)] == [False, True]
        log.declare_payload("t", None)
        assert binding_of(log, topic, views[0]) == before[0]


@pytest.mark.parametrize("wrong", [5, "n BIGINT", {"n": pa.int64()}])
def test_what_is_no_schema_changes_nothing(wrong: Any) -> None:
    with memory_log() as log:
        log.create_topic("t", payload_schema=NUMBERS)

        with pytest.raises(sl.InvalidError, match=r"pyarrow\.Schema"):
            log.declare_payload("t", wrong)

        assert log.describe_topic("t").settings.payload_schema == NUMBERS


def test_a_log_that_is_opened_for_reading_declares_nothing(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'log'}"
    with sl.open(url) as log:
        log.create_topic("t")
    with sl.open(url, mode="read") as log, pytest.raises(sl.InvalidError, match="mode"):
        log.declare_payload("t", NUMBERS)
