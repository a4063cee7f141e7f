"""Spans from append to delivery."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import strandline as sl
from strandline.telemetry import trace_context

EVENT = sl.Event("order.created", {"id": 17}, key="c-9", headers={"source": "shop"})


class Spans:
    """A provider, and the spans that it was given."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def names(self) -> set[str]:
        return {span.name for span in self._exporter.get_finished_spans()}


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def log(spans: Spans) -> Iterator[sl.Log]:
    with sl.open("memory:", telemetry=spans.provider) as log:
        log.create_topic("orders")
        yield log


def context(span: ReadableSpan) -> Any:
    found = span.get_span_context()
    assert found is not None
    return found


def header(span: ReadableSpan) -> str:
    own = context(span)
    return f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"


def only(found: list[ReadableSpan]) -> ReadableSpan:
    (span,) = found
    return span


def test_an_append_is_a_span_that_its_event_carries(log: sl.Log, spans: Spans) -> None:
    receipt = log.append("orders", EVENT)

    sent = only(spans.named("send orders"))
    assert sent.kind is trace.SpanKind.PRODUCER
    assert dict(sent.attributes or {}) == {
        "messaging.system": "strandline",
        "messaging.destination.name": "orders",
        "messaging.operation.type": "send",
        "messaging.operation.name": "append",
        "messaging.destination.partition.id": "0",
        "strandline.offset": receipt.offset,
    }
    (record,) = log.read("orders", 0, 0)
    assert record.headers == {"source": "shop", "traceparent": header(sent)}
    assert (record.kind, record.key, record.payload) == ("order.created", "c-9", {"id": 17})


def test_an_append_is_part_of_the_span_around_it(log: sl.Log, spans: Spans) -> None:
    with spans.provider.get_tracer("shop").start_as_current_span("buy") as around:
        log.append("orders", EVENT)

    sent = only(spans.named("send orders"))
    assert sent.parent is not None
    assert sent.parent.span_id == around.get_span_context().span_id


def test_a_batch_is_one_span(log: sl.Log, spans: Spans) -> None:
    log.append_many("orders", [EVENT] * 3)

    sent = only(spans.named("send orders"))
    assert (sent.attributes or {})["messaging.batch.message_count"] == 3
    assert {each.headers["traceparent"] for each in log.read("orders", 0, 0)} == {header(sent)}


def test_an_event_that_carries_a_span_keeps_it(log: sl.Log) -> None:
    carried = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    log.append("orders", sl.Event("k", headers={"traceparent": carried}))

    (record,) = log.read("orders", 0, 0)
    assert record.headers["traceparent"] == carried


def test_a_refused_append_is_a_span_that_failed(log: sl.Log, spans: Spans) -> None:
    with pytest.raises(sl.ConflictError):
        log.append("orders", EVENT, expected_offset=7)

    sent = only(spans.named("send orders"))
    assert sent.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in sent.events] == ["exception"]


@pytest.mark.parametrize("options", [{}, {"shared": True}], ids=["group", "queue"])
def test_a_delivery_is_a_span_in_the_trace_of_its_append(
    log: sl.Log, spans: Spans, options: dict[str, Any]
) -> None:
    log.append("orders", EVENT)

    with log.consumer("orders", "billing", **options) as consumer:
        (delivery,) = consumer.fetch(10, timeout_s=60)
        consumer.ack(delivery)

    sent, received = only(spans.named("send orders")), only(spans.named("receive orders"))
    assert received.kind is trace.SpanKind.CONSUMER
    assert received.parent is not None
    assert received.parent.span_id == context(sent).span_id
    assert context(received).trace_id == context(sent).trace_id
    assert (received.attributes or {})["messaging.consumer.group.name"] == "billing"
    assert spans.names() == {"send orders", "receive orders"}


def test_a_record_without_a_span_is_delivered_without_one(tmp_path: Path, spans: Spans) -> None:
    url = f"file:{tmp_path / 'events'}"
    with sl.open(url, telemetry=False) as log:
        log.create_topic("orders")
        log.append("orders", EVENT)

    with (
        sl.open(url, telemetry=spans.provider) as log,
        log.consumer("orders", "billing") as consumer,
    ):
        assert consumer.next(60) is not None

    assert spans.named("receive orders") == []


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
def test_a_trigger_runs_inside_a_span_of_the_trace(
    log: sl.Log, spans: Spans, is_async: bool
) -> None:
    seen: list[int] = []
    handled = threading.Event()

    def note() -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)
        handled.set()

    def on_thread(record: sl.Record) -> None:
        note()

    async def on_loop(record: sl.Record) -> None:
        note()

    triggers = sl.Triggers(log)
    triggers.on("orders", name="billing")(on_loop if is_async else on_thread)
    log.append("orders", EVENT)
    with triggers:
        assert handled.wait(60)

    processed = only(spans.named("process orders"))
    assert seen == [context(processed).span_id]
    assert processed.parent is not None
    assert processed.parent.span_id == context(only(spans.named("send orders"))).span_id


def test_a_span_of_ones_own_continues_from_a_record(log: sl.Log, spans: Spans) -> None:
    log.append("orders", EVENT)
    (record,) = log.read("orders", 0, 0)

    tracer = spans.provider.get_tracer("shop")
    tracer.start_span("pack", context=trace_context(record)).end()

    packed, sent = only(spans.named("pack")), only(spans.named("send orders"))
    assert context(packed).trace_id == context(sent).trace_id


async def append_on_loop(log: sl.Log, spans: Spans) -> int:
    with spans.provider.get_tracer("shop").start_as_current_span("buy") as around:
        async with log as face:
            await face.append("orders", EVENT)
            await face.append_many("orders", [EVENT])
        return around.get_span_context().span_id


def test_appends_on_a_loop_are_part_of_the_span_around_them(spans: Spans, tmp_path: Path) -> None:
    log = sl.open(f"sqlite:{tmp_path / 'events.db'}", telemetry=spans.provider)
    log.create_topic("orders")

    around = asyncio.run(append_on_loop(log, spans))

    sent = spans.named("send orders")
    assert [each.parent and each.parent.span_id for each in sent] == [around, around]


def test_bytes_and_rows_are_appended_with_a_span_that_they_do_not_carry(
    log: sl.Log, spans: Spans
) -> None:
    log.create_topic("raw", value_kind="bytes")

    log.append("raw", b"x")

    assert len(spans.named("send raw")) == 1
    assert [each.value for each in log.read("raw", 0, 0)] == [b"x"]


@pytest.mark.parametrize("telemetry", ["yes", 3, object()])
def test_what_is_no_provider_is_refused(telemetry: Any, tmp_path: Path) -> None:
    path = tmp_path / "events"
    with pytest.raises(sl.InvalidError, match="TracerProvider"):
        sl.open(f"file:{path}", telemetry=telemetry)
    assert not path.exists()


def test_the_environment_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRANDLINE_TELEMETRY", "on")
    with sl.open("memory:") as log:
        log.create_topic("orders")
        # Without a provider OpenTelemetry makes no spans, and nothing is carried.
        log.append("orders", EVENT)
        assert next(log.read("orders", 0, 0)).headers == {"source": "shop"}

    monkeypatch.setenv("STRANDLINE_TELEMETRY", "1")
    with pytest.raises(sl.InvalidError, match="on or off"):
        sl.open("memory:")
    sl.open("memory:", telemetry=False).close()


WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
import strandline as sl
try:
    sl.open("memory:", telemetry=True)
except sl.InvalidError as error:
    print(error)
sl.open("memory:").close()
"""


@pytest.mark.slow
def test_without_the_package_its_extra_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=60
    )
    assert "with the extra telemetry: pip install" in done.stdout
