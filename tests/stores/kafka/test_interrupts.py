"""An interrupt of one thread loses no answer that another one waits for."""

import random
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

import strandline as sl
from strandline.stores.kafka.sending import MessageSender
from tests.planting import Bug

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


# Python prints an interrupt that comes in a callback of a weak reference, and goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
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


def test_appends_end_though_no_thread_is_woken_to_poll(new_url: Callable[[], str]) -> None:
    """As where an interrupt comes right before a thread that stops polling wakes another."""
    lost = Bug("none is woken", MessageSender, "_pass_on", "each.signal.set()", "pass")
    with lost.planted(), sl.open(new_url()) as log:
        log.create_topic("orders", partitions=WRITERS)
        begin = threading.Barrier(WRITERS)

        def write(partition: int) -> None:
            begin.wait()
            for _ in range(3):
                log.append("orders", EVENT, partition=partition)

        writers = [
            threading.Thread(target=write, args=(partition,), daemon=True)
            for partition in range(WRITERS)
        ]
        for each in writers:
            each.start()

        for each in writers:
            each.join(PATIENCE_S)
            assert not each.is_alive(), "an append waits for a thread that polls"
        assert [log.marks("orders", number).high for number in range(WRITERS)] == [3] * WRITERS


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
