"""Rows of topics over Flight."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

import strandline as sl
from strandline.log import Log
from strandline.scans import paging
from strandline.server.flight import following
from strandline.values import Event
from tests.server.flight.flights import FlightServed, client_of, problem, rows, ticket
from tests.server.waiting import wait_until

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def filled(log: Log, name: str, count: int = 20, partitions: int = 2) -> None:
    log.create_topic(name, partitions=partitions)
    log.append_many(name, [Event("placed", {"n": n}, key=f"k-{n % 5}") for n in range(count)])


def test_do_get_returns_the_rows_that_a_scan_has(shared_log: Log, client: Any) -> None:
    filled(shared_log, "whole")

    found = client.do_get(ticket("whole")).read_all()

    assert found.equals(shared_log.scan("whole").to_table())


def test_lists_of_events_are_sent_as_few_messages(
    serve_flight: Callable[..., FlightServed], tmp_path: Path
) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("lists")
        for first in range(0, 3_000, 1_000):
            log.append_many("lists", [Event("placed", {"n": first + n}) for n in range(1_000)])
        with client_of(serve_flight(log)) as client:
            batches = [chunk.data for chunk in client.do_get(ticket("lists"))]

        assert [each.num_rows for each in batches] == [3_000]
        assert pa.Table.from_batches(batches).equals(log.scan("lists").to_table())


def test_a_ticket_names_range_columns_and_predicate(shared_log: Log, client: Any) -> None:
    filled(shared_log, "part", partitions=1)

    chosen = rows(
        client, "part", start=2, end=9, predicate="payload.n >= 4", columns=["_offset", "payload"]
    )
    last = rows(client, "part", start="-3", columns=["_offset"])
    none = client.do_get(ticket("part", start="latest")).read_all()

    assert chosen == [{"_offset": n, "payload": f'{{"n":{n}}}'} for n in range(4, 9)]
    assert [each["_offset"] for each in last] == [17, 18, 19]
    assert (none.num_rows, none.schema) == (0, shared_log.scan("part").schema)


def test_each_partition_may_have_its_own_start_and_end(shared_log: Log, client: Any) -> None:
    filled(shared_log, "spans")

    found = rows(
        client,
        "spans",
        partitions=[1],
        start={"1": 1},
        end={"1": 3},
        columns=["_partition", "_offset"],
    )

    assert [(each["_partition"], each["_offset"]) for each in found] == [(1, 1), (1, 2)]


def test_flight_info_names_the_columns_and_a_ticket_whose_rows_stay(
    shared_log: Log, client: Any
) -> None:
    filled(shared_log, "fixed")
    descriptor = flight.FlightDescriptor.for_path("fixed")

    info = client.get_flight_info(descriptor)
    shared_log.append("fixed", Event("later"))
    (endpoint,) = info.endpoints

    assert info.schema == client.get_schema(descriptor).schema == shared_log.scan("fixed").schema
    assert info.total_records == 20
    assert client.do_get(endpoint.ticket).read_all().num_rows == 20
    assert client.do_get(ticket("fixed")).read_all().num_rows == 21


def test_list_flights_has_the_topics_and_their_columns(shared_log: Log, client: Any) -> None:
    filled(shared_log, "listed-a")
    shared_log.scope().register("listed-b", SCHEMA)

    found = {each.descriptor.path[0].decode(): each for each in client.list_flights(b"listed-")}

    assert list(found) == ["listed-a", "listed-b"]
    assert found["listed-b"].schema.names[-2:] == ["id", "name"]
    assert client.do_get(found["listed-a"].endpoints[0].ticket).read_all().num_rows == 20


def test_errors_have_our_words_and_a_problem_document(shared_log: Log, client: Any) -> None:
    filled(shared_log, "wrong", partitions=1)
    shared_log.trim("wrong", 0, 5)
    bad: dict[str, tuple[Any, str, int]] = {
        "there is no such topic": (ticket("wrongs"), "InvalidError", 404),
        "a ticket or command is JSON": (flight.Ticket(b"rows"), "InvalidError", 400),
        "unknown field": (ticket("wrong", rows=1), "InvalidError", 400),
        "columns are names": (ticket("wrong", columns=["none"]), "InvalidError", 400),
        "these records were trimmed": (ticket("wrong", start=2), "TrimmedError", 410),
        "beyond the end": (ticket("wrong", start=99), "InvalidError", 416),
        "no such partition": (ticket("wrong", partitions=[4]), "InvalidError", 400),
        "has no end": (ticket("wrong", follow=True, end=9), "InvalidError", 400),
        "resume token": (ticket("wrong", follow=True, after="AAAA"), "InvalidError", 400),
        "no message of Flight SQL": (flight.Ticket(b"\n\x03abc"), "InvalidError", 400),
    }

    for words, (asked, title, status) in bad.items():
        with pytest.raises(flight.FlightServerError, match=words) as caught:
            client.do_get(asked).read_all()
        assert (problem(caught.value)["title"], problem(caught.value)["status"]) == (title, status)
        assert "Traceback" not in str(caught.value)
    with pytest.raises(flight.FlightServerError, match="no column"):
        client.do_get(ticket("wrong", predicate="nothing = 1")).read_all()


def test_a_failure_within_the_server_shows_nothing_of_it(
    shared_log: Log, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(shared_log, "failing")

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr("strandline.server.flight.answers.asked_rows", fail)
    with pytest.raises(flight.FlightInternalError) as caught:
        client.do_get(ticket("failing")).read_all()

    assert "see its log" in str(caught.value)
    assert "secret" not in str(caught.value) + str(caught.value.extra_info)


class Follower:
    """Reads a stream that follows a topic, on a separate thread."""

    def __init__(self, client: flight.FlightClient, asked: flight.Ticket) -> None:
        self.rows: list[tuple[int, int]] = []
        self.notes: list[dict[str, Any]] = []
        self._reader = client.do_get(asked)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for chunk in self._reader:
            found = chunk.data.to_pylist()
            self.rows += [(each["_partition"], each["_offset"]) for each in found]
            if chunk.app_metadata is not None and chunk.app_metadata.size:
                self.notes.append(json.loads(chunk.app_metadata.to_pybytes()))

    def wait_end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive(), "the stream did not end"


def every(log: Log, name: str) -> list[tuple[int, int]]:
    found = log.scan(name).to_table(columns=["_partition", "_offset"]).to_pylist()
    return [(each["_partition"], each["_offset"]) for each in found]


def has_gaps(followed: list[tuple[int, int]], expected: list[tuple[int, int]]) -> bool:
    """Whether rows are missing, repeated or out of order within their partition."""
    return sorted(followed) != sorted(expected) or any(
        one[0] == other[0] and one[1] >= other[1]
        for number, one in enumerate(followed)
        for other in followed[number + 1 :]
    )


def appending(log: Log, name: str, rounds: int) -> threading.Thread:
    def append() -> None:
        for n in range(rounds):
            log.append(name, Event("placed", n, key=f"k-{n % 5}"))

    thread = threading.Thread(target=append)
    thread.start()
    return thread


COLUMNS = ["_partition", "_offset"]


def test_a_follower_gets_each_record_once_and_a_last_message(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    filled(log, "orders")
    served = serve_flight(log)
    with client_of(served) as client:
        thread = appending(log, "orders", 300)
        follower = Follower(client, ticket("orders", follow=True, columns=COLUMNS))
        thread.join()
        wait_until(lambda: len(follower.rows) >= 320)
        served.stop()
        follower.wait_end()

    assert not has_gaps(follower.rows, every(log, "orders"))
    assert follower.notes[-1]["bye"]


def test_a_resumed_follower_continues_where_the_first_was(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    filled(log, "orders")
    before = every(log, "orders")
    asked = ticket("orders", follow=True, columns=COLUMNS, start="latest")
    served = serve_flight(log)
    with client_of(served) as client:
        first = Follower(client, asked)
        wait_until(lambda: any("caught_up" in each for each in first.notes))
        log.append_many("orders", [Event("placed", n, key=str(n)) for n in range(50)])
        wait_until(lambda: len(first.rows) == 50)
        served.stop()
        first.wait_end()
    log.append_many("orders", [Event("placed", n, key=str(n)) for n in range(50)])
    log.add_partitions("orders", 3)
    log.append("orders", Event("placed", 1), partition=2)
    again = serve_flight(log)
    token = first.notes[-1]["after"]
    with client_of(again) as client:
        second = Follower(client, ticket("orders", follow=True, columns=COLUMNS, after=token))
        wait_until(lambda: len(second.rows) >= 51)
        again.stop()
        second.wait_end()

    expected = [each for each in every(log, "orders") if each not in before]
    assert not has_gaps(first.rows + second.rows, expected)


def test_a_follower_sees_partitions_that_are_added(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    filled(log, "orders")
    served = serve_flight(log)
    with client_of(served) as client:
        follower = Follower(client, ticket("orders", follow=True, columns=COLUMNS))
        wait_until(lambda: len(follower.rows) == 20)
        log.add_partitions("orders", 4)
        log.append("orders", Event("placed"), partition=3)
        wait_until(lambda: (3, 0) in follower.rows)
        served.stop()
        follower.wait_end()


@pytest.mark.parametrize("planted", [False, True])
def test_the_check_of_followers_finds_a_page_that_is_skipped(
    serve_flight: Callable[..., FlightServed],
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    *,
    planted: bool,
) -> None:
    filled(log, "orders")
    if planted:
        real = paging.scan_page

        def skipping(*args: Any) -> Any:
            found, at = real(*args)
            return found[1:], at

        monkeypatch.setattr(following, "scan_page", skipping)
    served = serve_flight(log)
    with client_of(served) as client:
        follower = Follower(client, ticket("orders", follow=True, columns=COLUMNS))
        wait_until(lambda: any("caught_up" in each for each in follower.notes))
        served.stop()
        follower.wait_end()

    assert has_gaps(follower.rows, every(log, "orders")) is planted
