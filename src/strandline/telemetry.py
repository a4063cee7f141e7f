"""OpenTelemetry spans from append to delivery. See design 0125."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from strandline.log.results import Value
from strandline.log.scheduling import with_headers
from strandline.log.tracing import Tracing
from strandline.values import Event, InvalidError, Record
from strandline.values.extras import needing_module

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

TELEMETRY_VARIABLE: Final = "STRANDLINE_TELEMETRY"
TRACE_HEADER: Final = "traceparent"
"""The event header with the span of its append, in the format of W3C Trace Context."""

_SYSTEM: Final = {"messaging.system": "strandline"}


def tracing_by(telemetry: "bool | TracerProvider | None") -> Tracing | None:
    """Return the object that creates spans for a log; None for no spans.

    True uses the program's OpenTelemetry provider; None uses the value of
    STRANDLINE_TELEMETRY, `on` or `off`.
    """
    if telemetry is None:
        telemetry = _wanted_by_environment()
    if telemetry is False:
        return None
    with needing_module("opentelemetry-api", "telemetry"):
        return _OpenTelemetry(None if telemetry is True else telemetry)


def trace_context(record: Record) -> "Context":
    """Return the context of the span in which a record was appended, for your own spans.

    An empty context for a record without a span. Needs opentelemetry-api.
    """
    return _context_of(_headers_of(record))


class _OpenTelemetry:
    """Implements Tracing. The attributes are OpenTelemetry's for messaging."""

    def __init__(self, provider: "TracerProvider | None") -> None:
        from opentelemetry import trace  # noqa: PLC0415 - An extra.

        if provider is not None and not isinstance(provider, trace.TracerProvider):
            raise InvalidError(
                "telemetry is True, False, or a TracerProvider of OpenTelemetry",
                type=type(provider).__name__,
            )
        self._kinds = trace.SpanKind
        self._tracer = trace.get_tracer("strandline", tracer_provider=provider)

    @contextmanager
    def sending(self, topic: str, count: int) -> "Iterator[_Sent]":
        """See Tracing."""
        attributes = _attributes(topic, "send", "append")
        if count != 1:
            attributes["messaging.batch.message_count"] = count
        with self._tracer.start_as_current_span(
            f"send {topic}", kind=self._kinds.PRODUCER, attributes=attributes
        ) as span:
            yield _Sent(span)

    @contextmanager
    def continuing(self, headers: Mapping[str, str]) -> Iterator[None]:
        """See Tracing."""
        from opentelemetry import context  # noqa: PLC0415 - An extra.

        if TRACE_HEADER not in headers:
            yield
            return
        token = context.attach(_context_of(headers))
        try:
            yield
        finally:
            context.detach(token)

    def received(self, topic: str, consumer: str, records: Iterable[Record]) -> None:
        """See Tracing: a span for each record that has one."""
        for record in records:
            headers = _headers_of(record)
            if TRACE_HEADER in headers:
                self._tracer.start_span(
                    f"receive {topic}",
                    context=_context_of(headers),
                    kind=self._kinds.CONSUMER,
                    attributes=_delivered(topic, consumer, record, "receive"),
                ).end()

    @contextmanager
    def processing(self, topic: str, consumer: str, record: Record) -> "Iterator[Span]":
        """See Tracing."""
        with self._tracer.start_as_current_span(
            f"process {topic}",
            context=_context_of(_headers_of(record)),
            kind=self._kinds.CONSUMER,
            attributes=_delivered(topic, consumer, record, "process"),
        ) as span:
            yield span


class _Sent:
    """Implements SentSpan."""

    def __init__(self, span: "Span") -> None:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - An extra.
            TraceContextTextMapPropagator,
        )

        self._span = span
        self._carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(self._carrier)

    def carried(self, value: Value) -> Value:
        """See SentSpan."""
        if not isinstance(value, Event) or not self._carrier or TRACE_HEADER in value.headers:
            return value
        return with_headers(value, self._carrier)

    def stored(self, partition: int, offset: int) -> None:
        """See SentSpan."""
        self._span.set_attribute("messaging.destination.partition.id", str(partition))
        self._span.set_attribute("strandline.offset", offset)


def _attributes(topic: str, kind: str, name: str) -> dict[str, Any]:
    return {
        **_SYSTEM,
        "messaging.destination.name": topic,
        "messaging.operation.type": kind,
        "messaging.operation.name": name,
    }


def _delivered(topic: str, consumer: str, record: Record, kind: str) -> dict[str, Any]:
    return {
        **_attributes(topic, kind, kind),
        "messaging.consumer.group.name": consumer,
        "messaging.destination.partition.id": str(record.partition),
        "strandline.offset": record.offset,
    }


def _headers_of(record: Record) -> Mapping[str, str]:
    value = record.value
    return value.headers if isinstance(value, Event) else {}


def _context_of(headers: Mapping[str, str]) -> "Context":
    from opentelemetry.context import Context  # noqa: PLC0415 - An extra.
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - An extra.
        TraceContextTextMapPropagator,
    )

    return TraceContextTextMapPropagator().extract(headers, context=Context())


def _wanted_by_environment() -> bool:
    text = os.environ.get(TELEMETRY_VARIABLE, "off")
    if text not in {"on", "off"}:
        raise InvalidError("this variable is on or off", name=TELEMETRY_VARIABLE, value=text)
    return text == "on"
