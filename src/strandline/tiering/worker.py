"""Tiering in the background, at a bounded rate."""

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final, Self

from strandline.clock import Clock, SystemClock
from strandline.locks import Latch, start_thread
from strandline.log import Log, TopicName
from strandline.tiering.object_store import ObjectStore, store_of
from strandline.tiering.segment import SegmentState
from strandline.tiering.tier_report import TierReport, TierStep
from strandline.tiering.tiering import tier
from strandline.values import (
    StrandlineError,
    Topic,
    UnavailableError,
    check_topic_name,
)
from strandline.values.arguments import check_items, check_limit, check_seconds
from strandline.values.prompt import few, prompt_text

INTERVAL_S: Final = 60.0
CLOSE_TIMEOUT_S: Final = 60.0
"""How long closing waits for the worker's current step."""

_logger = logging.getLogger("strandline")


class TieringWorker:
    """Runs `tier` over topics every `interval_s`, on its own thread, until closed.

    Copies at most `bytes_per_s` of objects, on average; None is unlimited. Options are those
    of `tier`. Any number of workers, in any processes, may run concurrently. A failed run is
    retried after the interval, and logged unless the previous run failed equally; `fault` has
    a topic's last error until a run over it succeeds.
    """

    def __init__(
        self,
        log: Log,
        topics: Sequence[TopicName],
        store: str | ObjectStore,
        *,
        interval_s: float = INTERVAL_S,
        bytes_per_s: int | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self._log = log
        self._topics = tuple(
            each if isinstance(each, Topic) else check_topic_name(each, internal=True)
            for each in check_items("topics", topics)
        )
        self._store = store_of(store)
        self._interval_s = check_seconds("interval_s", interval_s, allows_zero=False)
        self._bytes_per_s = check_limit("bytes_per_s", bytes_per_s, 1)
        self._clock = clock or SystemClock()
        self._options = options
        self._closing = Latch()
        self._faults: dict[TopicName, StrandlineError] = {}
        self.report: TierReport = TierReport()
        """The result of the runs so far."""
        self._thread = threading.Thread(target=self._work, name="strandline-tiering", daemon=True)
        try:
            start_thread(self._thread)
        except BaseException:
            # Interrupted, the thread may have started or not.
            self._closing.set()
            raise

    def __repr__(self) -> str:
        closed = self._closing.is_set()
        return prompt_text("TieringWorker", self._log, few(self._topics), closed=closed)

    @property
    def fault(self) -> StrandlineError | None:
        """Why a topic could not be tiered; None while all runs succeed."""
        return next(reversed(list(self._faults.values())), None)

    def _work(self) -> None:
        while not self._closing.is_set():
            for topic in self._topics:
                self._run(topic)
            self._clock.wait(self._closing, self._interval_s)

    def _run(self, topic: TopicName) -> None:
        try:
            done = tier(
                self._log,
                topic,
                self._store,
                progress=self._pace,
                clock=self._clock,
                **self._options,
            )
        except _ClosingError:
            return
        except StrandlineError as error:
            before = self._faults.get(topic)
            self._faults[topic] = error
            if before is None or str(before) != str(error):
                _logger.warning("tiering of %s failed and is tried again: %s", topic, error)
        else:
            self._faults.pop(topic, None)
            self.report = self.report.with_added(done)

    def _pace(self, step: TierStep) -> None:
        """After each object, wait as long as the rate limit requires; stop between two steps."""
        if self._closing.is_set():
            raise _ClosingError
        if step.state is SegmentState.COPY_FINISHED and self._bytes_per_s is not None:
            self._clock.wait(self._closing, step.segment.size_bytes / self._bytes_per_s)

    def close(self) -> None:
        """Stop the worker, within a run if need be. May be repeated.

        UnavailableError if its current step, such as a transfer, takes longer than
        CLOSE_TIMEOUT_S.
        """
        self._closing.set()
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            raise UnavailableError("the worker is still in a step, close it again to wait")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _ClosingError(Exception):
    """The worker must stop."""
