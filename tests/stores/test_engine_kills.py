"""Nothing that was acknowledged is lost or stored twice, whatever is killed or cut."""

import asyncio
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from unittest import mock

import pytest

import strandline as sl
from strandline.stores.jetstream import lane as jetstream_lane
from strandline.stores.jetstream.address import SYSTEM_VARIABLE
from strandline.stores.jetstream.lane import JetStreamLane
from strandline.stores.kafka import publishing
from strandline.stores.kafka.partition import KafkaPartition
from strandline.stores.postgres import lane as postgres_lane
from strandline.stores.postgres import partition_head
from tests.stores.conftest import new_name
from tests.stores.engines import FRAMED, EngineServer
from tests.stores.jetstream.server import NatsServer
from tests.stores.kafka.server import KafkaServer
from tests.stores.kills import (
    append_from_two_logs,
    kill_server_under_writers,
    kill_writing_processes,
)
from tests.stores.postgres.server import PostgresServer
from tests.stores.wire import Wire

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0
FramedServer = NatsServer | KafkaServer
on_framed = pytest.mark.parametrize("server", FRAMED, indirect=True)


def event(number: int) -> sl.Event:
    return sl.Event("order", {"n": number})


def numbers(log: sl.Log) -> list[int]:
    return [record.payload["n"] for record in log.read("t", 0, 0)]


@pytest.fixture
def wire(server: FramedServer) -> Iterator[Wire]:
    assert server.wire is not None
    yield server.wire
    server.wire.join()


@pytest.fixture
def direct_url(new_url: Callable[[], str]) -> str:
    """The URL of a new log."""
    return new_url()


@pytest.fixture
def wired_url(server: FramedServer, wire: Wire, direct_url: str) -> str:
    """The URL of the same log, by way of the wire."""
    return direct_url.replace(f":{server.port}", f":{wire.port}")


def test_a_server_that_is_killed_loses_nothing_and_its_log_continues(
    mortal: EngineServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    if isinstance(mortal, NatsServer):
        monkeypatch.setenv(SYSTEM_VARIABLE, mortal.system_url)

    acknowledged = kill_server_under_writers(mortal, mortal.url(f"kills{seed}"), 3, seed)

    assert acknowledged > 0, seed


def test_a_process_that_is_killed_loses_nothing_and_readers_skip_nothing(
    new_url: Callable[[], str],
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")

    acknowledged = kill_writing_processes(new_url(), kills=2, seed=seed)

    assert acknowledged > 0, seed


def test_two_logs_append_to_one_partition(new_url: Callable[[], str]) -> None:
    append_from_two_logs(new_url())


def overtake(url: str) -> None:
    """Have a log append that another one has overtaken; raise unless all of it is stored."""
    with sl.open(url) as one, sl.open(url) as other:
        one.create_topic("t")
        one.append("t", event(0))
        other.append("t", event(1))
        one.append("t", event(2))
        assert [record.offset for record in other.read("t", 0, 0)] == [0, 1, 2]


def test_a_writer_that_was_overtaken_takes_the_next_offset(new_url: Callable[[], str]) -> None:
    overtake(new_url())


def without_a_lock() -> AbstractContextManager[object]:
    unlocked = partition_head.LOCK.replace(" FOR NO KEY UPDATE", "")
    return mock.patch.multiple(postgres_lane, LOCK=unlocked, LOCK_AT_ONCE=unlocked)


def without_a_fence() -> AbstractContextManager[object]:
    return mock.patch.object(jetstream_lane, "_EXPECTED", "Nothing-Expected")


def believing_any_answer() -> AbstractContextManager[object]:
    return mock.patch.object(publishing, "_counts", return_value=True)


@pytest.mark.parametrize(
    ("server", "plant", "check"),
    [
        (PostgresServer, without_a_lock, append_from_two_logs),
        pytest.param(NatsServer, without_a_fence, overtake, marks=pytest.mark.heavy),
        pytest.param(KafkaServer, believing_any_answer, overtake, marks=pytest.mark.heavy),
    ],
    indirect=["server"],
    ids=["postgres", "jetstream", "kafka"],
)
def test_the_check_sees_an_append_that_does_not_exclude_others(
    plant: Callable[[], AbstractContextManager[object]],
    check: Callable[[str], None],
    new_url: Callable[[], str],
) -> None:
    with plant(), pytest.raises(AssertionError):
        check(new_url())


def lose_the_answer(url: str, direct: str, wire: Wire) -> None:
    """Have the answer to an append get lost; raise unless it is stored once."""
    with sl.open(direct) as witness, sl.open(url) as log:
        witness.create_topic("t")
        log.append("t", event(0))
        wire.swallow_answers()
        receipts: list[sl.Receipt] = []
        appending = threading.Thread(target=lambda: receipts.append(log.append("t", event(1))))
        appending.start()
        with witness.subscribe("t", start=1) as subscription:
            assert subscription.next(timeout_s=PATIENCE_S) is not None
        wire.cut()
        wire.join()
        appending.join(PATIENCE_S)
        assert not appending.is_alive()
        assert [receipt.offset for receipt in receipts] == [1]
        assert numbers(witness) == [0, 1]


@on_framed
def test_an_append_whose_answer_is_lost_is_stored_once(
    wired_url: str, direct_url: str, wire: Wire
) -> None:
    lose_the_answer(wired_url, direct_url, wire)


def without_a_stored_frame() -> AbstractContextManager[object]:
    async def is_stored(_: object, name: bytes, sequence: int) -> bool:
        del name, sequence
        return False

    return mock.patch.object(JetStreamLane, "_is_stored", is_stored)


def without_a_place() -> AbstractContextManager[object]:
    return mock.patch.object(KafkaPartition, "place_of", return_value=None)


@pytest.mark.parametrize(
    ("server", "plant"),
    [(NatsServer, without_a_stored_frame), (KafkaServer, without_a_place)],
    indirect=["server"],
    ids=["jetstream", "kafka"],
)
@pytest.mark.heavy
def test_the_check_sees_an_append_that_does_not_look_for_itself(
    plant: Callable[[], AbstractContextManager[object]],
    wired_url: str,
    direct_url: str,
    wire: Wire,
) -> None:
    with plant(), pytest.raises(AssertionError):
        lose_the_answer(wired_url, direct_url, wire)


@on_framed
def test_an_append_that_a_dead_server_did_not_take_is_handed_back_and_never_stored(
    wire: Wire, wired_url: str
) -> None:
    with sl.open(wired_url) as log:
        log.create_topic("t")
        log.append("t", event(0))
        wire.cut()

        number = _refused(log)
        wire.join()

        assert log.append("t", event(-1)).offset == len(numbers(log)) - 1
        assert number not in numbers(log)


def _refused(log: sl.Log) -> int:
    """Append until an append is handed back; return which one it was."""
    for number in itertools.count(1):
        try:
            # Sent before the client sees that the wire is cut, an append is unknown.
            log.append("t", event(number), timeout_s=0.2)
        except sl.UnknownError:
            continue
        except sl.UnavailableError:
            return number
    raise AssertionError


@on_framed
def test_an_append_whose_answer_never_comes_is_unknown(wire: Wire, wired_url: str) -> None:
    with sl.open(wired_url) as log:
        log.create_topic("t")
        log.append("t", event(0))
        wire.swallow_answers()

        with pytest.raises(sl.UnknownError):
            log.append("t", event(1), timeout_s=0.2)

        wire.cut()
        wire.join()
        assert log.append("t", event(2)).offset == len(numbers(log)) - 1


@on_framed
def test_a_log_that_two_threads_close_leaves_no_append_without_an_outcome(
    wire: Wire, wired_url: str
) -> None:
    log = sl.open(wired_url, patience_s=0.5)
    log.create_topic("t")
    log.append("t", event(0))
    wire.swallow_answers()
    with pytest.raises(sl.UnknownError):
        log.append("t", event(1), timeout_s=0.2)
    # Behind the one that is still under way.
    waiting = asyncio.run(_append_without_waiting(log))

    closings = [threading.Thread(target=log.close, daemon=True) for _ in range(2)]
    for each in closings:
        each.start()
    wire.cut()
    for each in closings:
        each.join(PATIENCE_S)

    assert not any(each.is_alive() for each in closings)
    with pytest.raises(sl.StrandlineError):
        asyncio.run(_awaited(waiting))


async def _append_without_waiting(log: sl.Log) -> sl.AsyncReceipt:
    return sl.AsyncLog(log).append("t", event(2))


async def _awaited(receipt: sl.AsyncReceipt) -> None:
    await receipt


@on_framed
def test_a_subscription_continues_when_its_server_was_killed(mortal: FramedServer) -> None:
    url = mortal.url(new_name())
    with sl.open(url, patience_s=PATIENCE_S) as log, sl.open(url, patience_s=PATIENCE_S) as reader:
        log.create_topic("t")
        with reader.subscribe("t") as subscription:
            for number in range(2):
                log.append("t", event(number))
                record = subscription.next(timeout_s=PATIENCE_S)
                assert record is not None
                assert record.payload["n"] == number
                mortal.kill()
                mortal.start()


@on_framed
def test_identities_of_trimmed_records_outlive_the_server(mortal: FramedServer) -> None:
    url = mortal.url(new_name())
    with sl.open(url, patience_s=PATIENCE_S) as log:
        log.create_topic("t")
        first = log.append("t", event(0), idempotency_key="k")
        log.append("t", event(1))
        log.trim("t", 0, 1)
        mortal.kill()
        mortal.start()

        again = log.append("t", event(0), idempotency_key="k")

        assert (again.offset, again.is_repeat) == (first.offset, True)
    with sl.open(url) as fresh:
        assert fresh.append("t", event(0), idempotency_key="k").is_repeat


@on_framed
def test_a_server_that_lost_its_last_records_begins_an_epoch(mortal: FramedServer) -> None:
    with sl.open(mortal.url(new_name()), patience_s=PATIENCE_S) as log:
        log.create_topic("t")
        log.append("t", event(0))
        copy = mortal.folder / new_name()
        mortal.kill()
        shutil.copytree(mortal.data, copy)
        mortal.start()
        log.append("t", event(1))
        mortal.kill()
        shutil.rmtree(mortal.data)
        shutil.copytree(copy, mortal.data)
        mortal.start()

        assert log.append("t", event(2)).offset == 1
        assert [epoch.start for epoch in log.epochs("t", 0)] == [0, 1]
        assert numbers(log) == [0, 2]
