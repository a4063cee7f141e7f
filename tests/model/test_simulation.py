"""Simulated threads wait for each other in virtual time alone."""

import gc
import logging
from collections.abc import Iterator

import pytest

from strandline.writes.receipt import UnseenError
from tests.model.simulation import AbortedError, Simulation

LINE = "a line"

logger = logging.getLogger("strandline")


class Collecting(logging.Handler):
    """Under its lock, makes the collector run if it is not kept from it."""

    def emit(self, record: logging.LogRecord) -> None:
        thresholds = gc.get_threshold()
        gc.set_threshold(1)
        made: list[list[int]] = [[] for _ in range(10 if record.msg == LINE else 0)]
        gc.set_threshold(*thresholds)
        del made


@pytest.fixture
def handler() -> Iterator[logging.Handler]:
    handler = Collecting()
    logger.addHandler(handler)
    yield handler
    gc.collect()
    logger.removeHandler(handler)


def waste() -> None:
    """Leave errors that were never looked at to the collector."""
    for _ in range(20):
        cycle: list[object] = [UnseenError(ValueError("this is never looked at"))]
        cycle.append(cycle)


@pytest.mark.slow
@pytest.mark.usefixtures("handler")
def test_a_finalizer_that_the_collector_would_run_in_a_loggers_lock_stops_no_thread() -> None:
    for seed in range(10):
        simulation = Simulation(seed, "strandline/writes", AbortedError)
        for number in range(3):
            simulation.spawn(f"logs {number}", lambda: logger.error(LINE))
        waste()

        simulation.run()

    assert gc.isenabled()
