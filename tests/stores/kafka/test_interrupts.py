"""An interrupt of one thread loses no answer that another one waits for."""

import random
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

import strandline as sl

pytestmark = [pytest.mark.slow, pytest.mark.heavy]

WRITERS = 4
INTERRUPTS = 400
PATIENCE_S = 60.0
EVENT = sl.Event("order", {})


@pytest.fixture
def _alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_alarm")
def test_appends_of_other_threads_end_whenever_one_is_interrupted(
    new_url: Callable[[], str],
) -> None:
    with sl.open(new_url()) as log:
        log.create_topic("orders", partitions=WRITERS + 1)
        is_over = threading.Event()

        def write(partition: int) -> None:
            while not is_over.is_set():
                log.append("orders", EVENT, partition=partition)

        writers = [
            threading.Thread(target=write, args=(partition,), daemon=True)
            for partition in range(WRITERS)
        ]
        for each in writers:
            each.start()
        _append_interrupted(log, random.Random(1))
        is_over.set()

        for each in writers:
            each.join(PATIENCE_S)
            assert not each.is_alive(), "an append waits for an answer that was lost"


def _append_interrupted(log: sl.Log, rng: random.Random) -> None:
    interrupts = 0
    while interrupts < INTERRUPTS:
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0005, 0.01))
            try:
                log.append("orders", EVENT, partition=WRITERS)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except (KeyboardInterrupt, sl.UnknownError):
            # The client has errors of its own for an interrupt inside of it.
            interrupts += 1
