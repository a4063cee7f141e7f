"""Liveness, readiness, and metrics of the server."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.responses import Response

import strandline
from strandline.log import Log
from strandline.log.off_loop import in_thread
from strandline.log.store import still_there
from strandline.server.call import Call
from strandline.server.caller import Caller
from strandline.server.endpoint import JSON, endpoint, json_answer
from strandline.server.problems import RequestError
from strandline.server.streams import Streams
from strandline.server.tokens import TokenScope
from strandline.values import ConsumerLag, Topic

_FAILURE: Final = 500
#: The default bounds of the Prometheus client.
_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class ShownHealth(msgspec.Struct):
    """Whether it is healthy."""

    status: str
    version: str


@endpoint("GET", "/livez", None, answers={JSON: ShownHealth})
async def get_livez(call: Call) -> Response:
    """Return 200 while the process lives: restart it only if this fails."""
    del call
    return json_answer(ShownHealth("live", strandline.__version__))


@endpoint("GET", "/readyz", None, answers={JSON: ShownHealth})
async def get_readyz(call: Call) -> Response:
    """Return 200 while the log is open and the server is not shutting down, else 503."""
    if call.streams.is_draining:
        raise RequestError(503, "the server is shutting down", {"retry-after": "1"})
    await in_thread(call.log.blocking.topics)
    return json_answer(ShownHealth("ready", strandline.__version__))


@endpoint("GET", "/metrics", TokenScope.METRICS, answers={METRICS_TYPE: str})
async def get_metrics(call: Call) -> Response:
    """Return metrics of the log and the server for Prometheus; not for a token of a tenant."""
    check_sees_all(call.caller)
    body = await in_thread(generate_latest, call.metrics.registry)
    return Response(body, 200, media_type=METRICS_TYPE)


def check_sees_all(caller: Caller) -> None:
    """Raise unless the caller may see every topic."""
    if caller.tenant is not None or caller.topics != ("*",):
        raise RequestError(403, "this needs a token without a tenant, for all topics")


class EndpointMetrics:
    """Counters of the requests to one endpoint. Written by one event loop, read by any thread."""

    def __init__(self) -> None:
        #: How many were answered, by their status.
        self.statuses: Final[dict[int, int]] = {}
        #: The number of requests within each bound, and above the previous one.
        self.within: Final = [0] * (len(_BOUNDS_S) + 1)
        self.sum_s: float = 0.0

    def note(self, status: int, took_s: float) -> None:
        """Count a request that was answered."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.within[bisect_left(_BOUNDS_S, took_s)] += 1
        self.sum_s += took_s


class _RequestCollector(Collector):
    def __init__(self, endpoints: Mapping[str, EndpointMetrics]) -> None:
        self._endpoints = endpoints

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "strandline_http_requests",
            "Requests answered, by endpoint and status.",
            labels=("endpoint", "status"),
        )
        seconds = HistogramMetricFamily(
            "strandline_http_request_seconds",
            "How long requests took until their answer began.",
            labels=("endpoint",),
        )
        for name, each in self._endpoints.items():
            for status, count in tuple(each.statuses.items()):
                requests.add_metric((name, str(status)), count)
            within = zip((*_BOUNDS_S, inf), accumulate(each.within), strict=True)
            buckets = [
                (repr(bound_s) if bound_s < inf else "+Inf", count) for bound_s, count in within
            ]
            seconds.add_metric((name,), buckets, each.sum_s)
        yield requests
        yield seconds


class ServerMetrics:
    """The counters of one server and its log."""

    def __init__(self, log: Log, streams: Streams) -> None:
        self.registry: Final = CollectorRegistry()
        self._endpoints: dict[str, EndpointMetrics] = {}
        self.registry.register(_RequestCollector(self._endpoints))
        self.registry.register(_LogCollector(log, streams))

    def of(self, endpoint: str) -> EndpointMetrics:
        """Return the counter of the requests to an endpoint; call it before the first request."""
        return self._endpoints.setdefault(endpoint, EndpointMetrics())

    def answered(self) -> tuple[int, int]:
        """Return how many requests were answered, and how many of them with 500 or more."""
        counts = [
            count for each in self._endpoints.values() for count in tuple(each.statuses.items())
        ]
        failures = sum(count for status, count in counts if status >= _FAILURE)
        return sum(count for _, count in counts), failures


class _LogCollector(Collector):
    def __init__(self, log: Log, streams: Streams) -> None:
        self._log = log
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        found = self._log.metrics()
        yield GaugeMetricFamily(
            "strandline_streams", "Streams that are open now.", self._streams.count
        )
        yield GaugeMetricFamily(
            "strandline_subscriptions", "Subscriptions that are open now.", found.subscriptions
        )
        for name, value in (("reads", found.reads), ("acks", found.acks), ("hints", found.hints)):
            yield CounterMetricFamily(f"strandline_{name}", f"How many {name} there were.", value)
        for name in ("appends", "records", "bytes"):
            family = CounterMetricFamily(
                f"strandline_appended_{name}" if name != "appends" else "strandline_appends",
                f"How many {name} were appended, by topic.",
                labels=("topic", "tenant"),
            )
            for topic, each in found.topics.items():
                family.add_metric(_labels(topic), getattr(each, name))
            yield family
        if found.writes is not None:
            yield CounterMetricFamily(
                "strandline_syncs", "How often writes were synced.", found.writes.syncs
            )
        yield self._lags()

    def _lags(self) -> Metric:
        family = GaugeMetricFamily(
            "strandline_consumer_lag_records",
            "How many records a consumer is behind.",
            labels=("topic", "tenant", "consumer", "partition"),
        )
        log = self._log
        topics = [each for whose in (None, *log.tenants()) for each in log.topics(tenant=whose)]

        def look(topic: Topic) -> tuple[Topic, Sequence[ConsumerLag]]:
            return topic, log.consumers(topic, tenant=topic.tenant)

        for topic, consumers in still_there(dict.fromkeys(topics), look):
            for each in consumers:
                labels = (*_labels(topic), each.consumer, str(each.partition))
                family.add_metric(labels, each.lag)
        return family


def _labels(topic: Topic) -> tuple[str, str]:
    return topic.name, topic.tenant or ""


ENDPOINTS: Final[tuple[Any, ...]] = (get_livez, get_readyz, get_metrics)
