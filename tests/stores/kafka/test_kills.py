"""Nothing that was acknowledged is lost or stored twice, whatever is killed or cut."""

import contextlib
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from confluent_kafka import OFFSET_INVALID

import strandline as sl
from strandline.stores.kafka import publishing
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.partition import KafkaPartition
from tests.stores.jetstream.wire import Wire
from tests.stores.kafka.server import KafkaServer, NoServerError, free_port
from tests.stores.kills import (
    append_from_two_logs,
    kill_server_under_writers,
    kill_writing_processes,
)

pytestmark = [pytest.mark.slow, pytest.mark.heavy]

PATIENCE_S = 120.0


def event(number: int) -> sl.Event:
    return sl.Event("order", {"n": number})


def numbers(log: sl.Log) -> list[int]:
    return [record.payload["n"] for record in log.read("t", 0, 0)]


@pytest.fixture
def mortal() -> Iterator[KafkaServer]:
    """A broker that may be killed."""
    try:
        found = KafkaServer()
    except NoServerError as error:
        pytest.skip(f"Kafka cannot be started: {error}")
    yield found
    found.close()


@pytest.fixture(scope="module")
def wired() -> Iterator[tuple[KafkaServer, Wire]]:
    """A broker that is also reached by way of a wire."""
    inner = free_port()
    with contextlib.closing(Wire(inner)) as wire:
        try:
            server = KafkaServer(wire=(inner, wire.port))
        except NoServerError as error:
            pytest.skip(f"Kafka cannot be started: {error}")
        with contextlib.closing(server):
            yield server, wire


@pytest.fixture
def wire(wired: tuple[KafkaServer, Wire]) -> Iterator[Wire]:
    yield wired[1]
    wired[1].join()


@pytest.fixture
def direct_url(wired: tuple[KafkaServer, Wire], request: pytest.FixtureRequest) -> str:
    """The URL of a new log."""
    return wired[0].url(f"w{abs(hash(request.node.name))}")


@pytest.fixture
def wired_url(wired: tuple[KafkaServer, Wire], direct_url: str) -> str:
    """The URL of the same log, by way of the wire."""
    return direct_url.replace(f":{wired[0].port}", f":{wired[1].port}")


def test_a_broker_that_is_killed_loses_nothing_and_its_log_goes_on(mortal: KafkaServer) -> None:
    seed = int.from_bytes(os.urandom(4), "big")

    acknowledged = kill_server_under_writers(mortal, mortal.url("kills"), 3, seed)

    assert acknowledged > 0, seed


def test_a_process_that_is_killed_loses_nothing_and_readers_skip_nothing(
    new_url: Callable[[], str],
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")

    acknowledged = kill_writing_processes(new_url(), kills=1, seed=seed)

    assert acknowledged > 0, seed


def test_two_logs_append_to_one_partition(new_url: Callable[[], str]) -> None:
    append_from_two_logs(new_url())


def test_an_end_that_comes_without_an_offset_is_asked_for_again(
    new_url: Callable[[], str],
) -> None:
    # What the client returns while a partition changes its leader.
    nothing = SimpleNamespace(offset=OFFSET_INVALID)
    with sl.open(new_url()) as log:
        log.create_topic("t")
        log.append("t", event(0))
        name, asked = "_answered", itertools.count()
        answered = getattr(KafkaClients, name)

        def lacking(clients: KafkaClients, futures: Any) -> list[Any]:
            found = answered(clients, futures)
            is_keyed = getattr(next(iter(futures)), "topic", ".log").endswith(".log")
            return found if is_keyed or next(asked) >= 4 else [nothing] * len(found)

        with mock.patch.object(KafkaClients, name, lacking):
            log.append("t", event(1), expected_offset=1)
            assert numbers(log) == [0, 1]

        assert next(asked) > 4


def overtake(url: str) -> list[int]:
    """Have a log append that another one has overtaken; return what is stored."""
    with sl.open(url) as one, sl.open(url) as other:
        one.create_topic("t")
        one.append("t", event(0))
        other.append("t", event(1))
        one.append("t", event(2))
        return [record.offset for record in other.read("t", 0, 0)]


def test_a_writer_that_was_overtaken_takes_the_next_offset(new_url: Callable[[], str]) -> None:
    assert overtake(new_url()) == [0, 1, 2]


def test_the_check_sees_an_append_that_believes_any_answer(new_url: Callable[[], str]) -> None:
    with mock.patch.object(publishing, "_counts", return_value=True):
        assert overtake(new_url()) != [0, 1, 2]


def lose_the_answer(url: str, direct: str, wire: Wire) -> list[int]:
    """Have the answer to an append get lost; return what is stored in the end."""
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
        return numbers(witness)


def test_an_append_whose_answer_is_lost_is_stored_once(
    direct_url: str, wire: Wire, wired_url: str
) -> None:
    assert lose_the_answer(wired_url, direct_url, wire) == [0, 1]


def test_the_check_sees_an_append_that_does_not_look_for_itself(
    direct_url: str, wire: Wire, wired_url: str
) -> None:
    def never(_: KafkaPartition, name: bytes) -> None:
        del name

    with (
        mock.patch.object(KafkaPartition, "place_of", never),
        pytest.raises(AssertionError),
    ):
        assert lose_the_answer(wired_url, direct_url, wire) == [0, 1]


def test_an_append_that_a_dead_broker_did_not_take_is_handed_back_and_never_stored(
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


def test_a_subscription_goes_on_when_its_broker_was_killed(mortal: KafkaServer) -> None:
    url = mortal.url("shop")
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


def test_identities_of_trimmed_records_outlive_the_broker(mortal: KafkaServer) -> None:
    with sl.open(mortal.url("shop"), patience_s=PATIENCE_S) as log:
        log.create_topic("t")
        first = log.append("t", event(0), idempotency_key="k")
        log.append("t", event(1))
        log.trim("t", 0, 1)
        mortal.kill()
        mortal.start()

        again = log.append("t", event(0), idempotency_key="k")

        assert (again.offset, again.is_repeat) == (first.offset, True)
    with sl.open(mortal.url("shop")) as fresh:
        assert fresh.append("t", event(0), idempotency_key="k").is_repeat


def test_a_broker_that_lost_its_last_records_begins_an_epoch(mortal: KafkaServer) -> None:
    with sl.open(mortal.url("shop"), patience_s=PATIENCE_S) as log:
        log.create_topic("t")
        log.append("t", event(0))
        data, copy = mortal.folder / "data", mortal.folder / "copy"
        mortal.kill()
        shutil.copytree(data, copy)
        mortal.start()
        log.append("t", event(1))
        mortal.kill()
        shutil.rmtree(data)
        shutil.copytree(copy, data)
        mortal.start()

        assert log.append("t", event(2)).offset == 1
        assert [epoch.start for epoch in log.epochs("t", 0)] == [0, 1]
        assert numbers(log) == [0, 2]
