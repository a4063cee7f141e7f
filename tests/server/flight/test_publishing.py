"""Appending over Flight."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from strandline.log import Log
from strandline.server.settings import ServerSettings
from tests.server.flight.flights import (
    FlightServed,
    client_of,
    command,
    events,
    problem,
    put,
    rows,
)

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def batch(*ids: int) -> pa.RecordBatch:
    return pa.record_batch([list(ids), [f"n{each}" for each in ids]], schema=SCHEMA)


def test_a_put_publishes_batches_and_answers_where_they_are(shared_log: Log, client: Any) -> None:
    shared_log.scope().register("typed", SCHEMA)

    answers = put(client, command("typed"), batch(1, 2), batch(3))

    assert answers == [
        {
            "batches": 2,
            "records": 2,
            "ranges": [{"partition": 0, "start": 0, "end": 2, "is_repeat": False}],
            "is_whole": True,
        }
    ]
    found = rows(client, "typed", columns=["_offset", "id"])
    assert [(each["_offset"], each["id"]) for each in found] == [(0, 1), (0, 2), (1, 3)]


def test_the_key_of_a_put_is_that_of_each_event_without_one(shared_log: Log, client: Any) -> None:
    shared_log.create_topic("keyed")

    put(client, command("keyed", key="k"), events(1))
    with pytest.raises(flight.FlightError, match="another key"):
        put(client, command("keyed", key="k"), events(2, key="other"))

    assert [(each.payload, each.key) for each in shared_log.read("keyed", 0, 0)] == [(1, "k")]


def test_a_put_appends_events_by_their_columns(shared_log: Log, client: Any) -> None:
    shared_log.create_topic("events", partitions=3)

    (answer,) = put(client, command("events"), events({"n": 1}, {"n": 2}, key="k"))
    by_path = put(client, flight.FlightDescriptor.for_path("events"), events(3, key="k"))

    (found,) = answer["ranges"]
    read = list(shared_log.read("events", found["partition"], 0))
    assert [(each.kind, each.payload, each.key) for each in read] == [
        ("placed", {"n": 1}, "k"),
        ("placed", {"n": 2}, "k"),
        ("placed", 3, "k"),
    ]
    assert by_path[0]["ranges"][0]["start"] == 2


def test_an_answer_for_each_batch_comes_before_the_next_is_sent(
    shared_log: Log, client: Any
) -> None:
    shared_log.create_topic("acked")
    writer, answers = client.do_put(command("acked", receipts="batch"), events(1).schema)

    with writer:
        for n in range(3):
            writer.write_batch(events(n))
            assert b'"start":%d' % n in answers.read().to_pybytes()
        writer.done_writing()


@pytest.mark.parametrize(
    "identity", [{"idempotency_key": "load-7"}, {"producer": "loader", "sequence": 10}]
)
def test_a_stream_that_is_put_again_is_stored_once(
    shared_log: Log, client: Any, topic: str, identity: dict[str, Any]
) -> None:
    shared_log.create_topic(topic)
    stream = [events(1, 2), events(3), events(4, 5)]

    part = put(client, command(topic, **identity), *stream[:2])
    whole = put(client, command(topic, **identity), *stream)

    assert [each.payload for each in shared_log.read(topic, 0, 0)] == [1, 2, 3, 4, 5]
    assert part[0]["ranges"] == [{"partition": 0, "start": 0, "end": 3, "is_repeat": False}]
    assert whole[0]["ranges"] == [
        {"partition": 0, "start": 0, "end": 3, "is_repeat": True},
        {"partition": 0, "start": 3, "end": 5, "is_repeat": False},
    ]


def test_what_does_not_fit_is_refused_and_nothing_of_it_stored(
    shared_log: Log, client: Any
) -> None:
    shared_log.scope().register("narrow", SCHEMA)
    shared_log.create_topic("plain")
    strange = pa.record_batch({"id": ["a"]})
    bad = [
        ("another schema", command("narrow"), strange),
        ("rows for this topic have other columns", command("plain"), strange),
        ("payload and headers are JSON", command("plain"), _texts("{")),
        ("there is no such topic", command("none"), batch(1)),
        ("pass both or none", command("plain", sequence=1), events(1)),
        ("unknown field", command("plain", tenant="acme"), events(1)),
    ]

    for words, descriptor, sent in bad:
        with pytest.raises(flight.FlightServerError, match=words) as caught:
            put(client, descriptor, sent)
        assert problem(caught.value)["stored"] == "no"
    assert rows(client, "narrow") == rows(client, "plain") == []


def _texts(payload: str) -> pa.RecordBatch:
    return pa.record_batch({"kind": ["a"], "payload": [payload]})


def test_a_batch_that_fails_leaves_those_before_it_and_reports_it(
    shared_log: Log, client: Any
) -> None:
    shared_log.create_topic("half")
    good = pa.record_batch({"kind": ["a"], "payload": ["1"]})

    with pytest.raises(flight.FlightServerError, match="1 batches before it are stored"):
        put(client, command("half"), good, _texts("{"))

    assert len(rows(client, "half")) == 1


def test_a_batch_that_is_too_large_is_refused_with_an_explanation(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    log.scope().register("large", SCHEMA)
    served = serve_flight(log, ServerSettings(body_bytes_max=64 * 1024))
    with client_of(served) as client:
        with pytest.raises(flight.FlightServerError, match="send smaller ones"):
            put(client, command("large"), batch(*range(5000)))
        assert rows(client, "large") == []
        assert put(client, command("large"), batch(1))[0]["records"] == 1
