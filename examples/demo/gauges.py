"""Measures the run as it goes: how much has been appended, and how far each reader is behind."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import strandline as sl
from examples.demo.express import NAME as EXPRESS_NAME
from examples.demo.plan import PARTITIONS, SHOP

_INTERVAL_S = 0.25
_SPARK_CONSUMER = "spark payment.captured"


class Sample(NamedTuple):
    """The run at one moment."""

    at_s: float
    appended: int
    lags: Mapping[str, int]


def count(log: sl.Log, topic: str) -> int:
    """Return how many records a topic has ever had."""
    return sum(log.marks(topic, number).high for number in range(PARTITIONS))


def consumer_lag(log: sl.Log, consumer: str, appended: int) -> int:
    """Return how many records are before a consumer; all, before it has begun."""
    lags = [each.lag for each in log.consumers(SHOP) if each.consumer == consumer]
    return sum(lags) if lags else appended


class Gauges:
    """A thread that takes a sample four times a second."""

    def __init__(
        self, log: sl.Log, tailed: Callable[[], int], view: sl.LiveView[dict[str, int]]
    ) -> None:
        self.samples: list[Sample] = []
        self.marks: list[tuple[float, str]] = []
        self._log, self._tailed, self._view = log, tailed, view
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="gauges", daemon=True)
        self._thread.start()

    def mark(self, text: str) -> None:
        """Note that something happened now."""
        self.marks.append((time.monotonic() - self._began, text))

    def latest(self) -> Sample:
        return self.samples[-1] if self.samples else self._sample()

    def _measure(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            self.samples.append(self._sample())

    def _sample(self) -> Sample:
        appended = count(self._log, SHOP)
        lags = {
            "tail": max(0, appended - self._tailed()),
            "view": sum(self._view.lag().values()),
            "trigger": consumer_lag(self._log, EXPRESS_NAME, appended),
            "Spark": consumer_lag(self._log, _SPARK_CONSUMER, appended),
        }
        return Sample(time.monotonic() - self._began, appended, lags)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self.samples.append(self._sample())
