"""Traces over HTTP."""

from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace import TracerProvider

import strandline as sl
from tests.server.served import Served

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.mark.parametrize("count", [1, 2, 300])
def test_an_append_is_part_of_the_trace_of_its_request(
    serve: Callable[..., Served], count: int
) -> None:
    with sl.open("memory:", telemetry=TracerProvider()) as log:
        log.create_topic("orders")
        with serve(log).client() as http:
            answer = http.post(
                "/v1/topics/orders/records",
                json=[{"kind": "placed"}] * count,
                headers={"traceparent": PARENT},
            )
        assert answer.status_code == 201
        carried = {each.headers["traceparent"] for each in log.read("orders", 0, 0)}
        log.append("orders", sl.Event("placed"))
        *_, last = log.read("orders", 0, 0)

    (one,) = carried
    assert one.split("-")[1] == TRACE
    assert one != PARENT
    assert last.headers["traceparent"].split("-")[1] != TRACE


def test_an_append_to_a_stream_is_part_of_the_trace_of_its_request(
    serve: Callable[..., Served],
) -> None:
    with sl.open("memory:", telemetry=TracerProvider()) as log:
        with serve(log).client() as http:
            path = "/v1/stream/chats"
            assert http.put(path, headers={"content-type": "application/json"}).is_success
            answer = http.post(path, json=[{"n": 1}], headers={"traceparent": PARENT})
            assert answer.is_success
        (record,) = log.read("chats", 0, 0)

    assert record.headers["traceparent"].split("-")[1] == TRACE
