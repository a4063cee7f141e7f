"""Whole public calls, interrupted at every place: what follows in peace works as before."""

import contextlib
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import strandline as sl
from strandline.locks import Latch
from tests.model.interruption import Interruption, points_of
from tests.writes.doubles import PATIENCE_S, Call

SCHEMES = ("memory", "file", "sqlite")
TOPIC = "orders"
DURABLE = sl.Durability.DURABLE
#: What a writer may say after its flush was interrupted: it is to be opened again.
ENDED = (sl.FailedError, sl.ClosedError)


class Total(sl.View[list[int]]):
    """The sum of all numbers."""

    version = 1

    def initial(self, partition: int) -> list[int]:  # noqa: ARG002 - Not every view needs it.
        return [0]

    def apply(self, state: list[int], record: sl.Record) -> int:
        state[0] += record.payload["n"]
        return state[0]


class Store:
    """A log, and what is known of the numbers that were appended to it."""

    def __init__(self, scheme: str, folder: Path) -> None:
        self.scheme = scheme
        self.url = "memory:" if scheme == "memory" else f"{scheme}:{folder / 'events'}"
        self.folder = folder
        self.numbers = itertools.count()
        self.acknowledged: set[int] = set()
        #: Whether a number is in the log without having been acknowledged is left open.
        self.trimmed = 0
        self.log = self.opened()

    def opened(self) -> Any:
        log = sl.open(self.url)
        if TOPIC not in {topic.name for topic in log.topics()}:
            log.create_topic(TOPIC)
        return log

    def reopen(self) -> None:
        with contextlib.suppress(*ENDED):
            self.log.close()
        self.log = self.opened()
        if self.scheme == "memory":
            self.acknowledged.clear()
            self.trimmed = 0

    # --- what is interrupted ---

    def append(self, **terms: Any) -> None:
        number = next(self.numbers)
        self.log.append(TOPIC, sl.Event("made", {"n": number}), **terms).wait()
        self.acknowledged.add(number)

    def append_durable(self) -> None:
        self.append(durability=DURABLE)

    def append_many(self) -> None:
        numbers = [next(self.numbers) for _ in range(3)]
        self.log.append_many(TOPIC, [sl.Event("made", {"n": n}) for n in numbers]).wait()
        self.acknowledged.update(numbers)

    def append_first(self) -> None:
        """Append with a log that has found no topic yet."""
        with contextlib.suppress(*ENDED):
            self.log.close()
        self.log = sl.open(self.url)
        self.append()

    def in_transaction(self) -> None:
        number = next(self.numbers)
        with self.log.transaction():
            self.log.append(TOPIC, sl.Event("made", {"n": number}))
        self.acknowledged.add(number)

    def read(self) -> list[int]:
        marks = self.log.marks(TOPIC, 0)
        return [record.payload["n"] for record in self.log.read(TOPIC, 0, marks.low)]

    def trim(self) -> None:
        marks = self.log.marks(TOPIC, 0)
        before = max(marks.low, marks.high - 5)
        self.trimmed = max(self.trimmed, before)
        self.log.trim(TOPIC, 0, before)

    def subscribe(self) -> None:
        with self.log.subscribe(TOPIC, start=sl.EARLIEST) as subscription:
            assert subscription.next(0) is not None

    def consume(self) -> None:
        with sl.Consumer(self.log, TOPIC, "billing", start=sl.EARLIEST) as consumer:
            delivery = consumer.next(0)
            if delivery is not None:
                consumer.ack(delivery.record)

    def ack(self) -> None:
        self.log.ack(TOPIC, "shipping", 0, self.log.marks(TOPIC, 0).high)

    def create_and_drop(self) -> None:
        name = f"topic-{next(self.numbers)}"
        self.log.create_topic(name)
        self.log.drop_topic(name)

    def flush(self) -> None:
        self.log.flush()

    def view(self) -> None:
        with sl.LiveView(self.log, TOPIC, Total()) as view:
            view.reconcile([0])
            view.wait_ready(timeout_s=PATIENCE_S)

    def trigger(self) -> None:
        handled = Latch()
        triggers = sl.Triggers(self.log)
        triggers.on(TOPIC, name=f"trigger-{next(self.numbers)}")(lambda _: handled.set())
        with triggers:
            assert handled.wait(PATIENCE_S)

    def close(self) -> None:
        self.log.close()

    def program(self) -> None:
        """A whole program: what is interrupted is closed while the interrupt propagates."""
        number = next(self.numbers)
        with sl.open(self.url) as log:
            log.append(TOPIC, sl.Event("made", {"n": number}))
        self.acknowledged.add(number)

    # --- what has to hold afterwards ---

    def check(self) -> None:
        """Append, with this log and another one, close, and compare what is stored."""
        try:
            self.append()
        except ENDED:
            self.reopen()
            self.append()
        self.ack()
        if self.scheme != "memory":
            with sl.open(self.url) as other:
                other.append(TOPIC, sl.Event("made", {"n": -1}))
        self.subscribe()
        self._check_numbers()

    def _check_numbers(self) -> None:
        marks = self.log.marks(TOPIC, 0)
        records = list(self.log.read(TOPIC, 0, marks.low))
        found = Counter(record.payload["n"] for record in records)
        doubled = [number for number, times in found.items() if times > 1 and number >= 0]
        assert not doubled, f"stored twice: {doubled}"
        # What was trimmed is gone, and nothing else.
        first = min((n for n in found if n >= 0), default=0)
        lost = {n for n in self.acknowledged if n >= first} - set(found)
        assert not lost, f"acknowledged and lost: {sorted(lost)}"
        if not self.trimmed:
            assert self.acknowledged <= set(found), "acknowledged and lost"


CALLS: dict[str, Callable[[Store], object]] = {
    "append": Store.append,
    "append durable": Store.append_durable,
    "append_many": Store.append_many,
    "first append": Store.append_first,
    "transaction": Store.in_transaction,
    "read": Store.read,
    "trim": Store.trim,
    "subscribe": Store.subscribe,
    "consume": Store.consume,
    "ack": Store.ack,
    "create and drop": Store.create_and_drop,
    "flush": Store.flush,
    "view": Store.view,
    "trigger": Store.trigger,
    "close": Store.close,
    "program": Store.program,
}

#: What a kind of log does not have.
MISSING = {
    ("memory", "first append"),
    ("memory", "append durable"),
    ("memory", "transaction"),
    ("file", "transaction"),
    ("memory", "program"),
}
PAIRS = [(s, c) for s in SCHEMES for c in CALLS if (s, c) not in MISSING]


def interrupt(scheme: str, call: str, choose: Callable[[Sequence[int]], Sequence[int]]) -> int:
    """Interrupt a call at the chosen points, one after the other; return how many there were."""
    # A heartbeat that began before its log was closed may still write.
    kept = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with kept as folder, _closing(Store(scheme, Path(folder))) as store:
        action = CALLS[call]
        store.append()
        store.append()
        # Once before: the first time, modules are imported.
        action(store)
        Call(store.check).result() if call != "close" else store.reopen()
        points = points_of(lambda: action(store))
        store.reopen()
        store.append()
        chosen = choose(points)
        for number in chosen:
            interrupt_at(store, action, number)
    return len(chosen)


def interrupt_at(store: Store, action: Callable[[Store], object], number: int) -> None:
    """Interrupt one call, and see that all is well while the interrupt is still known."""
    interruption = Interruption(number)
    interruption.run(lambda: action(store))
    raised = interruption.error
    assert raised is None or isinstance(raised, _allowed(interruption.place)), (
        f"{interruption.place}: {raised!r}"
    )
    if action is Store.in_transaction:
        # Where a block of the caller's is left, one bytecode is not covered: the transaction
        # ends when the interrupt is dropped. See design 0070.
        interruption.error = raised = None
    try:
        Call(store.check).result()
    except BaseException as error:
        raise AssertionError(
            f"{store.scheme}, {action.__name__}, interrupted at {number}: {interruption.place}"
        ) from error


def _allowed(place: str) -> tuple[type[BaseException], ...]:
    """Return what may come out of a call that is interrupted at a place."""
    if "_authorize" in place:
        # SQLite takes what is raised there for a no, which is an error like any other.
        return (KeyboardInterrupt, sl.StrandlineError)
    if "/threading.py" in place:
        # Python's own conditions raise this when a thread that starts is interrupted.
        return (KeyboardInterrupt, *ENDED, RuntimeError)
    return (KeyboardInterrupt, *ENDED)


@contextlib.contextmanager
def _closing(store: Store) -> Iterator[Store]:
    yield store
    Call(store.log.close).result()
