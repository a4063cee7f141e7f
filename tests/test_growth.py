"""No public call that takes or gives many values costs more for each of them than for few.

Work is counted, not timed; `growth.*` of the benchmarks measures the same calls.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import EventRows, Log, appending
from strandline.log.draft import Draft
from strandline.stores.files import reading, runs
from strandline.stores.files.entries import page_of
from strandline.stores.files.frame import Frame
from strandline.stores.files.page import Page
from strandline.stores.files.root import Root
from strandline.stores.sqlite.topics import SqliteTopics
from strandline.triggers import redrive
from tests.work import Work

FEW, MANY = 300, 1_200
#: What a value may cost among many, compared with its cost among few.
GROWTH_MAX = 1.3
PARTITIONS = 4
EVENT = sl.Event("sale", {"n": 1})

Call = Callable[[], object]
Case = Callable[[Log, int], Call]
STORES = ("memory", "file", "sqlite")


def events(count: int) -> list[sl.Event]:
    return [sl.Event("sale", {"n": n}, key=f"customer-{n}") for n in range(count)]


def filled(log: Log, count: int, **settings: Any) -> None:
    log.create_topic("t", **settings)
    log.append_many("t", events(count))


def append_keyed(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS)
    return partial(log.append_many, "t", events(count))


def append_to_one_partition(log: Log, count: int) -> Call:
    log.create_topic("t")
    return partial(log.append_many, "t", events(count))


def append_to_each_partition(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=count // 2)
    return lambda: [log.append("t", EVENT, partition=n) for n in range(count // 2)]


def append_columns(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS)
    texts = pa.array([f"customer-{n}" for n in range(count)])
    json, none = pa.array(["{}"] * count), pa.nulls(count, pa.timestamp("us", "UTC"))
    return lambda: log.append_many("t", EventRows([texts, texts, json, json, none]))


def append_bytes_with_keys(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS, value_kind=sl.ValueKind.BYTES)
    keys = [f"customer-{n}" for n in range(count)]
    return lambda: log.append_many("t", [b"value"] * count, keys=keys)


def append_once(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS)
    return lambda: log.append_many("t", events(count), idempotency_key="once")


def append_again(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS)
    log.append_many("t", events(count), idempotency_key="once")
    return lambda: log.append_many("t", events(count), idempotency_key="once")


def append_sequences(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS)
    values = events(count)

    def append() -> None:
        for start in range(0, count, 100):
            log.append_many("t", values[start : start + 100], producer="p", sequence=start)

    return append


def append_with_proof(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS, proof=True)
    return partial(log.append_many, "t", events(count))


def append_within_retention(log: Log, count: int) -> Call:
    log.create_topic("t", retention_bytes=1 << 30, retention_age_s=1 << 30)
    return lambda: [log.append("t", each) for each in events(count)]


def receipts(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS)
    made = log.append_many("t", events(count))
    return lambda: [(each.partition, each.offset, each.timestamp_us) for each in made]


def receipts_of_repeats(log: Log, count: int) -> Call:
    made = append_again(log, count)()
    assert isinstance(made, Sequence)
    return lambda: [(each.partition, each.offset, each.timestamp_us) for each in made]


def receipts_of_many_partitions(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=count // 20)
    made = log.append_many("t", events(count))
    return lambda: [each.offset for each in made]


def read(log: Log, count: int) -> Call:
    filled(log, count)
    return lambda: list(log.read("t", 0, 0))


def read_in_pages(log: Log, count: int) -> Call:
    filled(log, count)
    page = 50

    def pages() -> None:
        for start in range(0, count, page):
            assert list(log.read("t", 0, start, records_max=page))

    return pages


def read_batches(log: Log, count: int) -> Call:
    filled(log, count)
    return lambda: [batch.to_pylist() for batch in log.read_batches("t", 0, 0)]


def verify(log: Log, count: int) -> Call:
    filled(log, count, proof=True)
    return lambda: log.verify("t")


def subscribe(log: Log, count: int) -> Call:
    filled(log, count, partitions=PARTITIONS)

    def follow() -> None:
        with log.subscribe("t", start=sl.EARLIEST) as stream:
            for _ in range(count):
                next(stream)

    return follow


def subscribe_to_topics(log: Log, count: int) -> Call:
    names = [f"t-{number}" for number in range(count // 2)]
    for name in names:
        log.create_topic(name)

    def follow() -> None:
        with log.subscribe(names) as stream:
            for name in names:
                stream.assignment.remove(0, topic=name)

    return follow


def acknowledge_each(log: Log, count: int) -> Call:
    filled(log, count // 10)

    def consume() -> None:
        with log.consumer("t", "billing") as consumer:
            for _ in range(count // 10):
                delivery = consumer.next(timeout_s=5)
                assert delivery is not None
                consumer.ack(delivery.record)

    return consume


def fetch_from_each_partition(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=count // 4)
    log.append_many("t", events(count))
    consumer = log.consumer("t", "billing")
    return lambda: consumer.fetch(max_records=count, timeout_s=5)


def acknowledge_each_partition(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=count // 4)
    log.append_many("t", [EVENT] * count, keys=[f"customer-{n}" for n in range(count)])
    consumer = log.consumer("t", "billing")
    deliveries = consumer.fetch(max_records=count, timeout_s=5)
    return lambda: consumer.ack(deliveries)


def open_consumer(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=count // 4)
    return lambda: log.consumer("t", "billing").close()


def open_consumer_of_blocked_keys(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=count // 4)
    log.append("t", sl.Event("sale", {"n": 1}, key="a"))
    with log.consumer("t", "billing") as first:
        (delivery,) = first.fetch(timeout_s=5)
        first.dead_letter(delivery)
    redrive(log, "t")
    return lambda: log.consumer("t", "billing", on_dead_letter="block-key").close()


def lags_of_many_partitions(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=count // 2)
    log.consumer("t", "billing").close()
    return lambda: log.consumers("t")


def trim(log: Log, count: int) -> Call:
    filled(log, count)
    return lambda: log.trim("t", 0, count - 1)


def trim_each(log: Log, count: int) -> Call:
    log.create_topic("t")
    # A trim may read a chunk of a file, which is as large among few as among many.
    value = sl.Event("sale", {"text": "x" * 2_000})
    for _ in range(max(1, count // 100)):
        log.append_many("t", [value] * min(count, 100))
    return lambda: [log.trim("t", 0, before) for before in range(0, count, 20)]


def topics(log: Log, count: int) -> Call:
    for number in range(count // 20):
        log.create_topic(f"t-{number}")
    call: Call = log.topics
    return call


def drop_topics(log: Log, count: int) -> Call:
    for number in range(count // 20):
        log.create_topic(f"t-{number}")

    def drop() -> None:
        for number in range(count // 20):
            log.drop_topic(f"t-{number}")

    return drop


def consumers(log: Log, count: int) -> Call:
    filled(log, 1)
    for number in range(count // 4):
        log.ack("t", f"consumer-{number}", 0, 1)
    return lambda: log.consumers("t")


def publish(log: Log, count: int) -> Call:
    schema = pa.schema([pa.field("n", pa.int64())])
    log.scope().register("t", schema)
    batch = pa.RecordBatch.from_pylist([{"n": 1}], schema)
    # In sqlite: a partition's row may lag 64 records behind.
    return lambda: [log.scope().publish("t", batch) for _ in range(count // 2)]


def replay(log: Log, count: int) -> Call:
    publish(log, count)()
    return lambda: list(log.scope().replay("t", sl.EARLIEST))


class Sum(sl.View[dict[str, int]]):
    def initial(self, partition: int) -> dict[str, int]:  # noqa: ARG002 # All begin alike.
        return {"sum": 0}

    def apply(self, state: dict[str, int], record: sl.Record) -> None:
        state["sum"] += record.payload["n"]


def fold(log: Log, count: int) -> Call:
    filled(log, count, partitions=PARTITIONS)

    def view() -> None:
        with sl.LiveView(log, "t", Sum()) as live:
            live.reconcile(range(PARTITIONS))
            for number in range(PARTITIONS):
                live.wait_applied(number, log.marks("t", number).high - 1, timeout_s=30)

    return view


def transact(log: Log, count: int) -> Call:
    log.create_topic("t", partitions=PARTITIONS)

    def append() -> None:
        with log.transaction():
            for each in events(count):
                log.append("t", each)

    return append


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        *(append_keyed, append_to_one_partition, append_to_each_partition),
        *(append_columns, append_bytes_with_keys, append_once, append_again, append_sequences),
        *(append_with_proof, append_within_retention, subscribe_to_topics, receipts),
        *(receipts_of_repeats, receipts_of_many_partitions, read, read_in_pages),
        *(read_batches, verify, subscribe, acknowledge_each, fetch_from_each_partition),
        *(open_consumer, open_consumer_of_blocked_keys, lags_of_many_partitions),
        *(acknowledge_each_partition, trim, trim_each, topics, drop_topics, consumers),
        *(publish, replay, fold, transact),
    )
}


@contextlib.contextmanager
def opened(store: str, folder: Path, **options: Any) -> Iterator[Log]:
    urls = {"memory": "memory:", "file": f"file:{folder}/log", "sqlite": f"sqlite:{folder}/log.db"}
    with sl.open(urls[store], **options) as log:
        yield log


def steps(store: str, case: Case, count: int, folder: Path) -> int:
    folder.mkdir()
    work = Work()
    with work.counting(), opened(store, folder) as log:
        return work.of(case(log, count))


def growth(store: str, case: Case, folder: Path) -> float:
    # Whatever is imported or made but once is not counted.
    steps(store, case, FEW // 4, folder / "first")
    few = steps(store, case, FEW, folder / "few")
    many = steps(store, case, MANY, folder / "many")
    return many / MANY / (few / FEW)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", CASES)
def test_a_value_among_many_costs_what_it_costs_among_few(
    store: str, name: str, tmp_path: Path
) -> None:
    if name == "transact" and store != "sqlite":
        pytest.skip("Only sqlite: has transactions of the caller.")

    assert growth(store, CASES[name], tmp_path) <= GROWTH_MAX


def lag_of_one(log: Log, count: int) -> Call:
    log.create_topic("t")
    for _ in range(count // 100):
        log.append_many("t", events(100))
    log.ack("t", "billing", 0, 1)
    return lambda: log.consumers("t")


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_a_consumer_far_behind_costs_as_much_to_list_as_one_close_by(
    store: str, tmp_path: Path
) -> None:
    steps(store, lag_of_one, FEW, tmp_path / "first")
    few = steps(store, lag_of_one, FEW, tmp_path / "few")
    many = steps(store, lag_of_one, MANY, tmp_path / "many")

    assert many <= few * GROWTH_MAX


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_a_topic_costs_as_much_to_create_after_many_as_after_few(
    store: str, tmp_path: Path
) -> None:
    assert creation_growth(store, tmp_path) <= GROWTH_MAX


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_a_topic_that_an_append_creates_costs_as_much_after_many_as_after_few(
    store: str, tmp_path: Path
) -> None:
    work = Work()
    with work.counting(), opened(store, tmp_path, auto_create=True) as log:
        each = [work.of(partial(log.append, f"topic-{n:03}", EVENT)) for n in range(130)]

    assert sum(each[-30:]) / sum(each[10:40]) <= GROWTH_MAX


def creation_growth(store: str, folder: Path) -> float:
    work = Work()
    with work.counting(), opened(store, folder) as log:
        each = [work.of(partial(log.create_topic, f"topic-{n:03}")) for n in range(130)]
    return sum(each[-30:]) / sum(each[10:40])


@pytest.mark.slow
def test_the_check_sees_drafts_that_are_all_made_again_for_each_index(tmp_path: Path) -> None:
    def made(drafts: Sequence[Draft]) -> list[Draft]:
        return list(copy(drafts))

    def chosen(drafts: Sequence[Draft], indices: Sequence[int]) -> list[Draft]:
        return [made(drafts)[index] for index in indices]

    with mock.patch.object(appending, "_chosen", chosen):
        assert growth("file", append_keyed, tmp_path) > GROWTH_MAX


@pytest.mark.slow
def test_the_check_sees_a_frame_that_is_decoded_whole_for_each_page(tmp_path: Path) -> None:
    def whole(frame: Frame, kind: sl.ValueKind, file: str, start: int, stop: int) -> Page:
        return page_of(frame, kind, file).cut(start, stop)

    # The core leaves to Python what is read page by page, and Python reads the rest.
    plants = [mock.patch.object(each, "page_of", whole) for each in (reading, runs)]
    with plants[0], plants[1]:
        assert growth("file", read_in_pages, tmp_path) > 2


@pytest.mark.slow
def test_the_check_sees_a_look_at_every_topic_before_one_is_created(tmp_path: Path) -> None:
    with mock.patch.object(Root, "topics_version", return_value=None):
        assert creation_growth("file", tmp_path) > 2


@pytest.mark.slow
def test_the_check_sees_a_search_for_a_name_without_an_index(tmp_path: Path) -> None:
    def scanned(_: SqliteTopics, connection: sqlite3.Connection, *_names: object) -> list[str]:
        return [name for (name,) in connection.execute("SELECT name FROM strandline_topics")]

    with mock.patch.object(SqliteTopics, "_case_variants", scanned):
        assert creation_growth("sqlite", tmp_path) > GROWTH_MAX
