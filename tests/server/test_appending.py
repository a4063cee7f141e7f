"""Appending over HTTP."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import httpx2
import pyarrow as pa
import pytest

from strandline.log import Log
from strandline.values import Event, ValueKind

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def arrow_stream(*batches: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for each in batches:
            stream.write_batch(each)
    return sink.getvalue()


def values_in(log: Log, topic: str) -> list[Any]:
    return [record.value for record in log.read(topic, 0, 0)]


def append(http: httpx2.Client, topic: str, **request: Any) -> httpx2.Response:
    return http.post(f"/v1/topics/{topic}/records", **request)


def test_an_event_is_appended_as_it_is(http: httpx2.Client, shared_log: Log, topic: str) -> None:
    shared_log.create_topic(topic)

    answer = append(
        http,
        topic,
        json={
            "kind": "placed",
            "payload": {"id": 1, "text": "ü"},
            "key": "c-1",
            "headers": {"trace": "x"},
            "occurred_at": "2026-01-02T03:04:05Z",
        },
    )

    assert answer.status_code == 201
    (receipt,) = answer.json()["receipts"]
    assert (receipt["partition"], receipt["offset"], receipt["is_repeat"]) == (0, 0, False)
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    wanted = Event(
        "placed", {"id": 1, "text": "ü"}, key="c-1", headers={"trace": "x"}, occurred_at=when
    )
    assert values_in(shared_log, topic) == [wanted]


def test_many_events_are_appended_together(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)

    as_list = append(http, topic, json=[{"kind": "a", "payload": n} for n in range(3)])
    as_lines = append(
        http,
        topic,
        content=b'{"kind": "b", "payload": 1}\n\n{"kind": "b"}\n',
        headers={"content-type": "application/x-ndjson"},
    )

    assert [each["offset"] for each in as_list.json()["receipts"]] == [0, 1, 2]
    assert [each["offset"] for each in as_lines.json()["receipts"]] == [3, 4]
    assert [each.kind for each in values_in(shared_log, topic)] == ["a", "a", "a", "b", "b"]


def test_of_a_list_with_a_bad_event_nothing_is_stored(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)

    for bad in ({}, {"kind": ""}, {"kind": "a", "strange": 1}, {"kind": "a", "occurred_at": "x"}):
        assert append(http, topic, json=[{"kind": "ok"}, bad]).status_code == 400
    assert append(http, topic, content=b'{"kind": "a", "payload": NaN}').status_code == 400
    assert append(http, topic, content=b"[" * 100_000).status_code == 400

    assert values_in(shared_log, topic) == []


def test_bytes_are_appended_raw_or_in_base64(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic, value_kind="bytes")
    octets = {"content-type": "application/octet-stream"}

    append(http, topic, content=b"\x00\xff", headers=octets, params={"key": "k"})
    append(http, topic, json={"value": "AQI=", "key": "j"})
    bad = append(http, topic, json={"value": "not base64!"})

    assert bad.status_code == 400
    assert [(each.key, each.value) for each in shared_log.read(topic, 0, 0)] == [
        ("k", b"\x00\xff"),
        ("j", b"\x01\x02"),
    ]


CLOUD: Any = {"specversion": "1.0", "id": "1", "source": "s", "type": "a"}


def cloud(**more: str) -> bytes:
    return json.dumps({**CLOUD, **more}).encode()


EVENT_ROW: Any = {"kind": ["a"], "payload": ["1"]}
BODIES: Any = {
    "event": ("application/json", b'{"kind":"a"}', b'{"kind":"a","key":"other"}'),
    "events": ("application/json", b'[{"kind":"a"}]', b'[{"kind":"a"},{"kind":"a","key":"o"}]'),
    "lines": ("application/x-ndjson", b'{"kind":"a"}\n', b'{"kind":"a","key":"other"}\n'),
    "cloud": ("application/cloudevents+json", cloud(), cloud(subject="other")),
    "cloud batch": (
        "application/cloudevents-batch+json",
        b"[%b]" % cloud(),
        b"[%b]" % cloud(partitionkey="other"),
    ),
    "rows": (
        "application/vnd.apache.arrow.stream",
        arrow_stream(pa.record_batch(EVENT_ROW)),
        arrow_stream(pa.record_batch({**EVENT_ROW, "key": ["other"]})),
    ),
    "base64": ("application/json", b'{"value":"AQI="}', b'{"value":"AQI=","key":"other"}'),
    "base64 list": ("application/json", b'[{"value":"AQI="}]', b'[{"value":"AQI=","key":"o"}]'),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_key_of_a_request_is_that_of_each_record_without_one(
    http: httpx2.Client, shared_log: Log, topic: str, name: str
) -> None:
    media, body, other = BODIES[name]
    kind = ValueKind.BYTES if name.startswith("base64") else ValueKind.EVENT
    shared_log.create_topic(topic, value_kind=kind)
    request: Any = {"headers": {"content-type": media}, "params": {"key": "c-1"}}

    appended = [append(http, topic, content=body, **request).status_code for _ in range(2)]
    refused = append(http, topic, content=other, **request)

    assert appended == [201, 201]
    assert [each.key for each in shared_log.read(topic, 0, 0)] == ["c-1", "c-1"]
    assert (refused.status_code, "another key" in refused.text) == (400, True)


@pytest.mark.parametrize("key", ["%ff", "%fe", "M%FCller", "%ED%A0%80"])
def test_a_query_that_is_not_utf8_is_refused(
    http: httpx2.Client, shared_log: Log, topic: str, key: str
) -> None:
    shared_log.create_topic(topic)

    answer = http.post(f"/v1/topics/{topic}/records?key={key}", json={"kind": "a"})
    read = http.get(f"/v1/topics/{topic}/tail?start={key}")

    assert (answer.status_code, read.status_code) == (400, 400)
    assert "UTF-8" in answer.json()["detail"]
    assert values_in(shared_log, topic) == []


@pytest.mark.parametrize(
    "text", [rb'"\ud800"', rb'"\udc00"', rb'"\ud800 and more"', rb'"\ud800\ud800"']
)
def test_an_unpaired_surrogate_is_named(
    http: httpx2.Client, shared_log: Log, topic: str, text: bytes
) -> None:
    shared_log.create_topic(topic)
    one = b'{"kind":"a","payload":%b}' % text

    answers = [append(http, topic, content=body) for body in (one, b"[%b]" % one)]
    created = http.put(f"/v1/topics/{topic}-b", content=b'{"metadata":{"a":%b}}' % text)

    assert [each.status_code for each in (*answers, created)] == [400, 400, 400]
    for each in (*answers, created):
        assert "unpaired surrogate" in each.text


@pytest.mark.parametrize("text", [rb'"\\ud800"', rb'"\ud83d\ude00"'])
def test_what_is_no_unpaired_surrogate_is_appended(
    http: httpx2.Client, shared_log: Log, topic: str, text: bytes
) -> None:
    shared_log.create_topic(topic)

    whole = append(http, topic, content=b'{"kind":"a","payload":%b}' % text)
    cut = append(http, topic, content=b'{"kind":"a","payload":%b' % text)

    assert whole.status_code == 201
    assert (cut.status_code, "surrogate" in cut.text) == (400, False)


def test_arrow_streams_are_appended_batch_by_batch(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic, value_kind="batch")
    batch = pa.record_batch({"n": [1, 2]})

    answer = append(http, topic, content=arrow_stream(batch, batch), headers=ARROW)

    assert len(answer.json()["receipts"]) == 2
    assert values_in(shared_log, topic) == [batch, batch]


def test_a_typed_topic_refuses_a_batch_of_another_schema(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    batch = pa.record_batch({"n": [1, 2]})
    shared_log.scope().register(topic, batch.schema)

    good = append(http, topic, content=arrow_stream(batch), headers=ARROW)
    bad = append(http, topic, content=arrow_stream(pa.record_batch({"m": [1]})), headers=ARROW)

    assert good.status_code == 201
    assert (bad.status_code, bad.json()["title"]) == (400, "SchemaMismatchError")
    assert values_in(shared_log, topic) == [batch]


def test_arrow_rows_are_appended_as_events(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    rows = pa.record_batch({"kind": ["a", "b"], "payload": ['{"n":1}', "2"], "key": ["k", None]})
    bad = pa.record_batch({"kind": ["a"], "payload": ["{"]})

    append(http, topic, content=arrow_stream(rows), headers=ARROW)
    refused = append(http, topic, content=arrow_stream(bad), headers=ARROW)

    assert refused.status_code == 400
    assert values_in(shared_log, topic) == [Event("a", {"n": 1}, key="k"), Event("b", 2)]


@pytest.mark.parametrize("mode", ["structured", "batch", "binary"])
def test_cloud_events_keep_their_attributes(
    http: httpx2.Client, shared_log: Log, topic: str, mode: str
) -> None:
    shared_log.create_topic(topic)
    event = {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop",
        "type": "order.placed",
        "subject": "c-1",
        "time": "2026-01-02T03:04:05Z",
    }
    if mode == "binary":
        headers = {f"ce-{name}": value for name, value in event.items()}
        answer = append(http, topic, json={"n": 1}, headers=headers)
    elif mode == "structured":
        media = {"content-type": "application/cloudevents+json"}
        answer = append(http, topic, json={**event, "data": {"n": 1}}, headers=media)
    else:
        media = {"content-type": "application/cloudevents-batch+json"}
        answer = append(http, topic, json=[{**event, "data": {"n": 1}}], headers=media)

    assert answer.status_code == 201, answer.text
    (found,) = values_in(shared_log, topic)
    assert (found.kind, found.payload, found.key) == ("order.placed", {"n": 1}, "c-1")
    assert found.headers["ce_id"] == "7"
    assert found.headers["ce_source"] == "/shop"
    assert found.occurred_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_cloud_event_without_its_attributes_is_refused(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    media = {"content-type": "application/cloudevents+json"}

    bad = append(http, topic, json={"specversion": "1.0", "id": "1"}, headers=media)

    assert (bad.status_code, bad.json()["fields"]["missing"]) == (400, ["source", "type"])


@pytest.mark.parametrize("media", ["cloudevents+json", "cloudevents-batch+json"])
def test_a_cloud_event_with_two_payloads_is_refused(
    http: httpx2.Client, shared_log: Log, topic: str, media: str
) -> None:
    shared_log.create_topic(topic)
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": 1}
    both = {**event, "data_base64": "MQ=="}
    body = [both] if "batch" in media else both

    refused = append(http, topic, json=body, headers={"content-type": f"application/{media}"})

    assert refused.status_code == 400
    assert "not both" in refused.json()["detail"]
    assert not values_in(shared_log, topic)


@pytest.mark.parametrize("media", ["json", "x-ndjson", "cloudevents+json"])
def test_text_in_another_charset_than_utf8_is_refused(
    http: httpx2.Client, shared_log: Log, topic: str, media: str
) -> None:
    """As UTF-8 it is unreadable, or becomes another text."""
    shared_log.create_topic(topic)
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    body = json.dumps(event if "cloud" in media else {"kind": "a", "payload": "Ã¼"})

    def status(parameters: str) -> int:
        headers = {"content-type": f"application/{media}{parameters}"}
        return append(http, topic, content=body, headers=headers).status_code

    assert [status(f"; charset={each}") for each in ("latin-1", "UTF-16", '"x"')] == [415] * 3
    assert [status(f";{each}") for each in (" charset=UTF-8", 'a=b; Charset="utf-8"', "")] == [
        201
    ] * 3


@pytest.mark.parametrize("media", ["application/json", "application/cloudevents+json"])
def test_a_content_type_with_strange_parameters_is_no_failure_of_the_server(
    http: httpx2.Client, shared_log: Log, topic: str, media: str
) -> None:
    shared_log.create_topic(topic)
    content = b'{"kind":"a","payload":1,"specversion":"1.0","id":"1","source":"s","type":"a"}'

    answers = [
        http.post(
            f"/v1/topics/{topic}/records",
            content=content,
            headers={"content-type": f"{media};{strange}"},
        )
        for strange in ("charset*;charset*1*", "charset*0*=a''b", "charset", "a=b;;=;charset*=x'")
    ]

    assert {each.status_code for each in answers} <= {201, 400, 415}, answers


def test_a_timeout_is_finite(http: httpx2.Client, shared_log: Log, topic: str) -> None:
    shared_log.create_topic(topic)

    def status(timeout_s: str) -> int:
        url = f"/v1/topics/{topic}/records?timeout_s={timeout_s}"
        return http.post(url, json={"kind": "a"}).status_code

    assert [status(each) for each in ("inf", "-inf", "nan", "-1", "1e999")] == [400] * 5
    assert status("1.5") == 201


def test_a_repeat_returns_the_receipt_of_the_original(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    key = {"idempotency-key": "once"}
    producer = {"producer-id": "p", "producer-seq": "5"}

    for headers in (key, producer):
        first = append(http, topic, json={"kind": "a"}, headers=headers)
        second = append(http, topic, json={"kind": "a"}, headers=headers)
        assert (first.status_code, second.status_code) == (201, 200)
        assert second.json()["receipts"][0]["is_repeat"]
        assert second.json()["receipts"][0]["offset"] == first.json()["receipts"][0]["offset"]

    stale = append(
        http, topic, json={"kind": "a"}, headers={"producer-id": "p", "producer-seq": "4"}
    )
    assert stale.status_code == 409
    assert len(values_in(shared_log, topic)) == 2


def test_an_expected_offset_that_is_passed_is_412_with_the_end(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    append(http, topic, json=[{"kind": "a"}] * 3)

    wrong = append(http, topic, json={"kind": "a"}, params={"expected_offset": 1})
    right = append(http, topic, json={"kind": "a"}, params={"expected_offset": 3})

    assert (wrong.status_code, wrong.json()["end"]) == (412, 3)
    assert right.status_code == 201


def test_wrong_forms_levels_and_partitions_are_refused(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    event = {"kind": "a"}

    octets = append(http, topic, content=b"x", headers={"content-type": "application/octet-stream"})
    assert octets.status_code == 415
    assert "application/json, application/x-ndjson" in octets.json()["detail"]
    assert append(http, topic, json=event, params={"durability": "durable"}).status_code == 400
    assert append(http, topic, json=event, params={"durability": "best"}).status_code == 400
    assert append(http, topic, json=event, params={"partition": 7}).status_code == 400
    assert append(http, topic, json=event, params={"strange": 1}).status_code == 400
    both = append(http, topic, json=event, params=[("partition", "0"), ("partition", "0")])
    assert both.status_code == 400
    assert values_in(shared_log, topic) == []


def test_a_record_that_is_too_large_is_413(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)

    answer = append(http, topic, json={"kind": "a", "payload": "x" * (17 * 1024 * 1024)})

    assert answer.status_code == 413
    assert answer.json()["fields"]["bytes_max"] == 16 * 1024 * 1024
    assert values_in(shared_log, topic) == []


def test_an_event_may_be_appended_for_later(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)

    done = append(
        http, f"{topic}", params={"deliver_at": "2099-12-24T18:00:00Z"}, json={"kind": "a"}
    )
    refused = [
        append(http, topic, params={"deliver_at": text}, json={"kind": "a"}).status_code
        for text in ("2099-12-24T18:00:00", "tomorrow")
    ]

    assert (done.status_code, refused) == (201, [400, 400])
    (value,) = values_in(shared_log, topic)
    assert value.headers == {"strandline.deliver_at": "2099-12-24T18:00:00.000000Z"}
