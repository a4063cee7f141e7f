"""Reading pages over HTTP."""

import threading
from typing import Any

import httpx2
import pyarrow as pa
import pytest

from strandline.log import Log
from strandline.values import Event


@pytest.fixture
def ten(shared_log: Log, topic: str) -> str:
    """A topic with ten events."""
    shared_log.create_topic(topic)
    shared_log.append_many(topic, [Event("even" if n % 2 == 0 else "odd", n) for n in range(10)])
    return topic


def read(http: httpx2.Client, topic: str, accept: str = "", **params: Any) -> httpx2.Response:
    headers = {"accept": accept} if accept else {}
    return http.get(f"/v1/topics/{topic}/partitions/0/records", params=params, headers=headers)


def payloads(answer: httpx2.Response) -> list[int]:
    return [each["payload"] for each in answer.json()["records"]]


def test_a_page_says_where_to_read_on(http: httpx2.Client, ten: str) -> None:
    first = read(http, ten, limit=4)
    rest = read(http, ten, start=first.json()["next"])

    assert payloads(first) == [0, 1, 2, 3]
    assert payloads(rest) == [4, 5, 6, 7, 8, 9]
    assert (rest.json()["next"], rest.json()["end"], rest.json()["oldest"]) == (10, 10, 0)
    assert rest.headers["strandline-next-offset"] == "10"


def test_a_start_may_be_a_place(http: httpx2.Client, shared_log: Log, ten: str) -> None:
    (third,) = shared_log.read(ten, 0, 3, 4)

    assert payloads(read(http, ten, start="-2")) == [8, 9]
    assert payloads(read(http, ten, start="-99", limit=1)) == [0]
    assert payloads(read(http, ten, start="latest")) == []
    assert payloads(read(http, ten, start="2000-01-01T00:00:00Z", limit=1)) == [0]
    assert payloads(read(http, ten, start=third.timestamp.isoformat(), limit=1)) == [0]
    assert payloads(read(http, ten, start=3, end=5)) == [3, 4]
    for bad in ("soon", "1.5", "99999999999999999999", "0x1"):
        assert read(http, ten, start=bad).status_code == 400, bad


def test_what_was_trimmed_is_410_and_what_is_not_yet_416(
    http: httpx2.Client, shared_log: Log, ten: str
) -> None:
    shared_log.trim(ten, 0, 4)

    gone, beyond = read(http, ten, start=2), read(http, ten, start=99)

    assert (gone.status_code, gone.json()["oldest"]) == (410, 4)
    assert (beyond.status_code, beyond.json()["end"]) == (416, 10)


def test_a_refused_argument_is_not_shown_as_the_end_of_the_partition(
    http: httpx2.Client, ten: str
) -> None:
    refused = read(http, ten, end=-5)

    assert refused.status_code == 400
    assert "end" not in refused.json()
    assert refused.json()["fields"] == {"end": -5}


def test_a_predicate_selects_and_the_page_continues(http: httpx2.Client, ten: str) -> None:
    answer = read(http, ten, predicate="kind = 'odd'", limit=5)

    assert payloads(answer) == [1, 3]
    assert answer.json()["next"] == 5
    assert read(http, ten, predicate="nope = 1").status_code == 400


def test_a_page_is_given_as_lines_or_arrow(http: httpx2.Client, ten: str) -> None:
    lines = read(http, ten, "application/x-ndjson", limit=2)
    arrow = read(
        http,
        ten,
        "application/vnd.apache.arrow.stream",
        predicate="kind = 'odd'",
        columns="_offset,payload",
    )

    assert len(lines.text.splitlines()) == 2
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert table.to_pydict() == {
        "_offset": [1, 3, 5, 7, 9],
        "payload": ["1", "3", "5", "7", "9"],
    }
    assert read(http, ten, "image/png").status_code == 406
    assert read(http, ten, columns="kind").status_code == 400


def test_rows_of_batches_are_selected(http: httpx2.Client, shared_log: Log, topic: str) -> None:
    shared_log.create_topic(topic, value_kind="batch")
    shared_log.append(topic, pa.record_batch({"n": [1, 2, 3]}))

    as_json = read(http, topic, predicate="n > 1").json()["records"]
    arrow = read(http, topic, "application/vnd.apache.arrow.stream", predicate="n > 1")

    assert as_json[0]["rows"] == [{"n": 2}, {"n": 3}]
    assert pa.ipc.open_stream(arrow.content).read_all()["n"].to_pylist() == [2, 3]


def test_a_page_that_is_known_is_not_sent_again(http: httpx2.Client, ten: str) -> None:
    first = read(http, ten, limit=3)
    tag = {"if-none-match": first.headers["etag"]}
    url = f"/v1/topics/{ten}/partitions/0/records"

    assert http.get(url, params={"limit": 3}, headers=tag).status_code == 304
    assert http.get(url, params={"limit": 4}, headers=tag).status_code == 200


def test_a_page_is_known_by_weak_tags_lists_and_any(http: httpx2.Client, ten: str) -> None:
    tag = read(http, ten, limit=3).headers["etag"]
    url = f"/v1/topics/{ten}/partitions/0/records?limit=3"
    given = (f"W/{tag}", f'"a,b", W/{tag}', f'{tag},"x"', "*", '"x"', tag.strip('"'), "")

    found = [http.get(url, headers={"if-none-match": each}).status_code for each in given]
    apart = http.get(url, headers=[("if-none-match", '"x"'), ("if-none-match", tag)])

    assert found == [304] * 4 + [200] * 3
    assert apart.status_code == 304


def test_a_read_at_the_end_waits_for_records(
    http: httpx2.Client, shared_log: Log, ten: str
) -> None:
    found: list[list[int]] = []
    reader = threading.Thread(
        target=lambda: found.append(payloads(read(http, ten, start=10, wait=30)))
    )

    reader.start()
    while not shared_log.metrics().subscriptions:
        reader.join(0.005)
    shared_log.append(ten, Event("new", 10))
    reader.join(30)

    assert found == [[10]]


def test_a_wait_ends_without_records(http: httpx2.Client, ten: str) -> None:
    answer = read(http, ten, start="latest", wait=0.05)

    assert (answer.status_code, answer.json()["records"], answer.json()["next"]) == (200, [], 10)


def test_limits_are_kept(http: httpx2.Client, shared_log: Log, topic: str) -> None:
    shared_log.create_topic(topic)
    shared_log.append_many(topic, [Event("a", "x" * 1000) for _ in range(10)])

    assert len(read(http, topic, bytes_max=2500).json()["records"]) == 2
    assert len(read(http, topic, bytes_max=1).json()["records"]) == 1
    for name, bad in (("limit", 10_001), ("limit", -1), ("wait", 61), ("bytes_max", 1 << 40)):
        assert read(http, topic, "", **{name: bad}).status_code == 400, name


def test_a_partition_that_is_not_there_is_refused(http: httpx2.Client, ten: str) -> None:
    for bad in ("1", "-1", "x", "99999999999", "%30%30x"):
        url = f"/v1/topics/{ten}/partitions/{bad}/records"
        assert http.get(url).status_code == 400, bad
