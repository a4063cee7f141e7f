"""What the rooms above a log do, on each engine: triggers, views, typed topics, tenants, tiers,
and commands. Their own rules are tested on logs in files; here is that nothing depends on those.
"""

import contextlib
import gc
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.cli.app import app
from strandline.tiering import tier
from tests.views.accounts import PATIENCE_S, Accounts

pytestmark = pytest.mark.slow


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


@pytest.fixture
def log(url: str) -> Iterator[sl.Log]:
    with sl.open(url) as opened:
        yield opened


def test_a_trigger_handles_each_record_and_dead_letters_what_fails(log: sl.Log) -> None:
    log.create_topic("orders")
    seen: list[int] = []
    is_done = threading.Event()

    @sl.on("orders", where="payload.n <> 2", retry=[])
    def handle(record: sl.Record) -> None:
        if record.payload["n"] == 1:
            raise ValueError("never")
        seen.append(record.payload["n"])
        if record.payload["n"] == 3:
            is_done.set()

    with sl.Triggers(log, [handle]):
        log.append_many("orders", [sl.Event("order", {"n": n}) for n in range(4)])
        assert is_done.wait(PATIENCE_S)

    assert seen == [0, 3]
    (letters,) = [each for each in log.topics(internal=True) if "dead" in each.name]
    assert [record.payload["n"] for record in log.read(letters, 0, 0)] == [1]


def test_a_view_answers_with_what_was_just_written(log: sl.Log, tmp_path: Path) -> None:
    log.create_topic("accounts", partitions=2)
    # The second one continues from the snapshot of the first.
    for kind, wanted in (("opened", 5), ("moved", 10)):
        with sl.LiveView(log, "accounts", Accounts(), snapshot=tmp_path / "saved") as view:
            view.reconcile(range(2))
            view.wait_ready(PATIENCE_S)
            receipt = log.append("accounts", sl.Event(kind, 5, key="alice"))
            view.wait_applied(receipt.partition, receipt.offset, PATIENCE_S)
            assert view.read(receipt.partition, dict) == {"alice": wanted}


def test_typed_topics_keep_tenants_apart(log: sl.Log) -> None:
    schema = pa.schema([pa.field("n", pa.int64())])
    one, other = log.scope("one"), log.scope("other")
    for scope, number in ((one, 1), (other, 2)):
        scope.register("sales", schema)
        scope.publish("sales", pa.record_batch({"n": [number, 10]}, schema=schema))

    (found,) = one.replay("sales", where="n < 10")
    assert isinstance(found, sl.DeliveredBatch)
    assert found.batch.to_pydict() == {"n": [1]}
    assert [each.name for each in other.topics()] == ["sales"]
    with pytest.raises(sl.SchemaMismatchError):
        one.publish("sales", pa.record_batch({"m": [1]}))


def test_what_is_tiered_is_read_as_before(log: sl.Log, tmp_path: Path) -> None:
    log.create_topic("orders")
    log.append_many("orders", [sl.Event("order", {"n": n}) for n in range(50)])

    report = tier(log, "orders", f"file://{tmp_path}/cold", include_open=True, local_bytes=0)
    log.append("orders", sl.Event("order", {"n": 50}))

    assert report.evicted_records > 0
    assert [record.payload["n"] for record in log.read("orders", 0, 0)] == list(range(51))
    table = sl.scan(log, "orders").to_table()
    assert table.column("_offset").to_pylist() == list(range(51))


def test_commands_work(url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def run(*words: str) -> list[Any]:
        with pytest.raises(SystemExit) as ended:
            app([*words, "--url", url])
        shown = capsys.readouterr()
        assert not ended.value.code, shown.err
        return [json.loads(line) for line in shown.out.splitlines() if line.startswith("{")]

    run("create", "orders", "--partitions", "2")
    run("append", "orders", '{"n": 1}', "--kind", "order.placed", "--key", "alice")
    (record,) = run("read", "orders", "--json")
    assert (record["kind"], record["key"], record["payload"]) == ("order.placed", "alice", {"n": 1})
    run("seek", "orders", "billing", "latest")
    assert "billing" in json.dumps(run("consumers", "orders", "--json"))
    run("verify", "orders")
    run("export", "orders", str(tmp_path / "orders.jsonl"))
    run("trim", "orders", "--before", "latest", "--force")
    assert run("read", "orders", "--json") == []
    run("drop", "orders", "--yes")


def test_a_closed_log_keeps_no_connection_and_no_thread(url: str) -> None:
    # The first one starts what a process has once.
    _used_and_closed(url)
    gc.collect()
    before = _sockets() | _threads()

    log = _used_and_closed(url)

    deadline = time.monotonic() + PATIENCE_S
    while left := (_sockets() | _threads()) - before:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.001)
    with pytest.raises(sl.ClosedError):
        log.append("orders", sl.Event("order", {}))


def test_calls_that_are_under_way_when_a_log_is_closed_come_to_an_end(url: str) -> None:
    with sl.open(url) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("order", {}))

    for _ in range(5):
        log = sl.open(url)
        is_begun = threading.Barrier(5)
        callers = [threading.Thread(target=_call, args=(log, is_begun)) for _ in range(4)]
        for each in callers:
            each.start()
        is_begun.wait(PATIENCE_S)
        log.close()
        for each in callers:
            each.join(PATIENCE_S)
            assert not each.is_alive(), "a call does not end"


def _call(log: sl.Log, is_begun: threading.Barrier) -> None:
    assert log.marks("orders", 0).high == 1
    is_begun.wait(PATIENCE_S)
    with contextlib.suppress(sl.ClosedError):
        while True:
            log.marks("orders", 0)
            list(log.read("orders", 0, 0))


def _used_and_closed(url: str) -> sl.Log:
    with sl.open(url) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("order", {}))
        with log.subscribe("orders", start=sl.EARLIEST) as orders:
            assert orders.next(timeout_s=PATIENCE_S) is not None
        with log.consumer("orders", "billing") as billing:
            delivery = billing.next(timeout_s=PATIENCE_S)
            assert delivery is not None
            billing.ack(delivery)
    return log


def _sockets() -> set[str]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(os.readlink(each))
    return {each for each in found if each.startswith("socket:")}


def _threads() -> set[str]:
    return {each.name for each in Path("/proc/self/task").iterdir()}
