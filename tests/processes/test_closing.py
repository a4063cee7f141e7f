"""A log that is closed by one thread while another changes it."""

import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from strandline.values import ClosedError, Event
from tests.processes.stores import SCHEMES, open_store, url_in

CLOSES = 30
RECORDS = 100


@pytest.fixture(autouse=True)
def eager_threads() -> Iterator[None]:
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval_s)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_change_that_runs_while_the_log_is_closed_is_whole_or_absent(
    scheme: str, tmp_path: Path
) -> None:
    rng = random.Random(0)
    for number in range(CLOSES):
        url = url_in(scheme, tmp_path / str(number))
        log = open_store(url)
        log.create_topic("orders")
        assert log.append_many("orders", [Event("order", {"n": n}) for n in range(RECORDS)])
        met: list[BaseException] = []

        trimming = threading.Thread(target=trim_step_by_step, args=(log, met))
        trimming.start()
        time.sleep(rng.uniform(0, 0.005))
        log.close()
        trimming.join()

        assert all(isinstance(error, ClosedError) for error in met), met
        with open_store(url) as again:
            marks = again.marks("orders", 0)
            numbers = [record.payload["n"] for record in again.read("orders", 0, marks.low)]
        assert numbers == list(range(marks.low, RECORDS))


def trim_step_by_step(log: Log, met: list[BaseException]) -> None:
    try:
        for before in range(1, RECORDS):
            log.trim("orders", 0, before)
    except BaseException as error:  # noqa: BLE001 - The test looks at it.
        met.append(error)
