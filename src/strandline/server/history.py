"""A server's metrics of the last hour, as a series of samples."""

import threading
from collections import deque
from typing import Final

import msgspec
from starlette.responses import Response

from strandline.clock import Clock, Timer
from strandline.log import Log, parts_of
from strandline.log.store import still_there
from strandline.server.call import Call
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.health import ServerMetrics, check_sees_all
from strandline.server.streams import Streams
from strandline.server.tokens import TokenScope
from strandline.values import StrandlineError, Topic
from strandline.values.json_forms import moment

INTERVAL_S: Final = 5.0
"""The time between two samples; longer if samples take long."""
KEPT_S: Final = 3600.0
_SHARE_MAX: Final = 0.05
"""The share of time that samples may take."""


class MetricSample(msgspec.Struct):
    """The metrics at a moment. All but `lag`, `streams` and `topics` only grow, as long as no
    topic is dropped."""

    at: str
    records: int
    """The sum of the ends of all partitions, including appends of other processes."""
    bytes: int
    """What was appended by the server itself."""
    reads: int
    requests: int
    failures: int
    """Requests that were answered with 500 or more."""
    lag: int
    """The sum of the lags of all consumers."""
    streams: int
    topics: int


class ShownHistory(msgspec.Struct):
    """Samples of the last hour, oldest first."""

    interval_s: float
    samples: list[MetricSample]


@endpoint("GET", "/v1/metrics/history", TokenScope.METRICS, answers={JSON: ShownHistory})
async def get_metric_history(call: Call) -> Response:
    """Return the samples of the last hour; not for a token of a tenant."""
    check_sees_all(call.caller)
    return json_answer(ShownHistory(INTERVAL_S, call.history.samples()))


class MetricHistory:
    """Takes samples from its start to its stop, on threads of the clock. Any thread may use it."""

    def __init__(self, log: Log, metrics: ServerMetrics, streams: Streams) -> None:
        self._log = log
        self._metrics = metrics
        self._streams = streams
        self._clock: Clock = parts_of(log).clock
        self._lock = threading.Lock()
        self._kept: deque[MetricSample] = deque(maxlen=int(KEPT_S / INTERVAL_S))
        self._timer: Timer | None = None
        self._is_running = False

    def samples(self) -> list[MetricSample]:
        """Return the stored samples, oldest first."""
        with self._lock:
            return list(self._kept)

    def start(self) -> None:
        """Take samples from now on."""
        with self._lock:
            self._is_running = True
            self._timer = self._clock.call_later(0.0, self._take)

    def stop(self) -> None:
        """Stop sampling; a running sample is dropped."""
        with self._lock:
            self._is_running = False
            if self._timer is not None:
                self._timer.cancel()

    def _take(self) -> None:
        began = self._clock.monotonic()
        try:
            sample = self._sample()
        except StrandlineError:
            # The log is closed, or cannot be reached now.
            sample = None
        took_s = self._clock.monotonic() - began
        with self._lock:
            if self._is_running:
                if sample is not None:
                    self._kept.append(sample)
                delay_s = max(INTERVAL_S, took_s / _SHARE_MAX)
                self._timer = self._clock.call_later(delay_s, self._take)

    def _sample(self) -> MetricSample:
        log, counted = self._log, self._log.metrics()
        topics = {each for whose in (None, *log.tenants()) for each in log.topics(tenant=whose)}

        def look(topic: Topic) -> tuple[int, int]:
            ends = sum(marks.high for marks in log.describe_topic(topic).marks)
            return ends, sum(each.lag for each in log.consumers(topic, tenant=topic.tenant))

        found = list(still_there(topics, look))
        requests, failures = self._metrics.answered()
        return MetricSample(
            at=moment(self._clock.now_us()) or "",
            records=sum(ends for ends, _ in found),
            bytes=counted.bytes,
            reads=counted.reads,
            requests=requests,
            failures=failures,
            lag=sum(lag for _, lag in found),
            streams=self._streams.count,
            topics=len(found),
        )


ENDPOINTS = (get_metric_history,)
