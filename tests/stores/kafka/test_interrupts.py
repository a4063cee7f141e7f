"""An interrupt of one thread loses no answer that another one waits for."""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Message

import strandline as sl
from strandline.locks import Attempt
from strandline.stores.kafka.sending import MessageSender, SentMessage

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


# Python prints an interrupt that comes in a callback of a weak reference, and continues.
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


def test_a_thread_that_is_not_woken_to_poll_does_so_by_itself() -> None:
    """As where an interrupt comes right before a thread that stops polling wakes another."""
    sender = MessageSender({"bootstrap.servers": "127.0.0.1:1"}, "kafka://127.0.0.1:1/log")
    lock = _TakenOnce(sender._polling)  # noqa: SLF001 - No call of the log waits at this place only.
    sender._attempt_polling = Attempt(lock)  # noqa: SLF001 - As above.
    sent = SentMessage()
    whose = sent, _Answer(sent)
    waiting = threading.Thread(target=sender._wait, args=whose, daemon=True)  # noqa: SLF001 - As above.

    waiting.start()

    waiting.join(PATIENCE_S)
    assert not waiting.is_alive(), "an append waits for a thread that polls"
    assert sent.is_over


class _TakenOnce:
    """A lock that another thread has at the first attempt, and none at the next."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._is_taken = True

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        was_taken, self._is_taken = self._is_taken, False
        return not was_taken and self._lock.acquire(blocking, timeout)


class _Answer(NamedTuple):
    """A client that has the answer for the thread that polls."""

    sent: SentMessage

    def poll(self, _timeout_s: float) -> None:
        self.sent.on_delivery(None, Message())


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
