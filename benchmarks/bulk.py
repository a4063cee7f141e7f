"""`growth.*`: a value of a bulk call costs the same among a hundred thousand as among a thousand.

Both have the same number of values in a round, and all of them are created before the first call
is timed: otherwise a thousand fresh values would be in the processor's caches and a hundred
thousand would not, and that difference would be measured. The garbage collector is on, as in any
program.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa

import strandline as sl
from benchmarks.entry import OURS, Contender, Entry, now
from benchmarks.events import samples
from benchmarks.producing import fresh
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from strandline.log import Log

PARTITIONS = 16
STORES = ("memory", "file", "sqlite")
#: The size that the largest is compared with.
SMALL = "small"
#: The values of a round for sizes that are not compared, in several calls.
VALUES_MIN = 2_000
CALLS_MAX = 100
#: How many topics a round creates.
CREATED = 10
_PAGE = 100
_SCHEMA = pa.schema([pa.field("n", pa.int64())])

Call = Callable[[], object]
Case = Callable[[Log, str, int], Call]
"""Prepares a topic of this name for so many values, and returns the call."""


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of bulk calls and of `create_topic`."""
    bulk = [
        Entry(
            name=f"growth.{name}.{store}",
            unit="values/s",
            contenders=partial(_contenders, store, case, sizes.bulk_values[:kept]),
            bars={SMALL: 0.8},
        )
        for name, (case, kept) in CASES.items()
        for store in STORES
        if name != "transaction" or store == "sqlite"
    ]
    topics = [
        Entry(
            name=f"growth.create_topic.{store}",
            unit="topics/s",
            contenders=partial(_topic_contenders, store, sizes.bulk_topics),
            bars={SMALL: 0.8},
        )
        for store in STORES
    ]
    return (*bulk, *topics)


def _events(number: int) -> list[sl.Event]:
    return [ours.event_of(sample) for sample in samples(number)]


def _filled(log: Log, topic: str, number: int, partitions: int = 1) -> None:
    log.create_topic(topic, partitions=partitions)
    log.append_many(topic, _events(number))


def _append_many(partitions: int, log: Log, topic: str, number: int) -> Call:
    log.create_topic(topic, partitions=partitions)
    return partial(log.append_many, topic, _events(number))


def _append_again(log: Log, topic: str, number: int) -> Call:
    log.create_topic(topic, partitions=PARTITIONS)
    append = partial(log.append_many, topic, _events(number), idempotency_key="once")
    append()
    return append


def _receipts(log: Log, topic: str, number: int) -> Call:
    log.create_topic(topic, partitions=PARTITIONS)
    receipts = log.append_many(topic, _events(number))
    return lambda: [receipt.offset for receipt in receipts]


def _read(log: Log, topic: str, number: int) -> Call:
    _filled(log, topic, number)
    return lambda: sum(1 for _ in log.read(topic, 0, 0))


def _read_pages(log: Log, topic: str, number: int) -> Call:
    _filled(log, topic, number)
    return lambda: [
        list(log.read(topic, 0, start, records_max=_PAGE)) for start in range(0, number, _PAGE)
    ]


def _read_batches(log: Log, topic: str, number: int) -> Call:
    _filled(log, topic, number)
    return lambda: [batch.num_rows for batch in log.read_batches(topic, 0, 0)]


def _subscribe(log: Log, topic: str, number: int) -> Call:
    _filled(log, topic, number, PARTITIONS)

    def follow() -> None:
        with log.subscribe(topic, start=sl.EARLIEST) as stream:
            for _ in range(number):
                next(stream)

    return follow


def _acks(log: Log, topic: str, number: int) -> Call:
    _filled(log, topic, number)
    return lambda: [log.ack(topic, "billing", 0, end) for end in range(1, number + 1)]


def _consumers(log: Log, topic: str, number: int) -> Call:
    _filled(log, topic, 1)
    for each in range(number):
        log.ack(topic, f"consumer-{each}", 0, 1)
    return partial(log.consumers, topic)


def _trim(log: Log, topic: str, number: int) -> Call:
    _filled(log, topic, number)
    return partial(log.trim, topic, 0, number)


def _publish(log: Log, topic: str, number: int) -> Call:
    log.scope().register(topic, _SCHEMA)
    batch = pa.RecordBatch.from_pylist([{"n": 1}], _SCHEMA)
    return lambda: [log.scope().publish(topic, batch) for _ in range(number)]


def _transaction(log: Log, topic: str, number: int) -> Call:
    log.create_topic(topic, partitions=PARTITIONS)
    events = _events(number)

    def append() -> None:
        with log.transaction():
            for event in events:
                log.append(topic, event)

    return append


class _Count(sl.View[list[int]]):
    def initial(self, partition: int) -> list[int]:  # noqa: ARG002 - All begin alike.
        return [0]

    def apply(self, state: list[int], record: sl.Record) -> None:  # noqa: ARG002 - Counted.
        state[0] += 1


def _view(log: Log, topic: str, number: int) -> Call:
    _filled(log, topic, number, PARTITIONS)

    def fold() -> None:
        with sl.LiveView(log, topic, _Count()) as view:
            view.reconcile(range(PARTITIONS))
            view.wait_ready()

    return fold


CASES: Mapping[str, tuple[Case, int]] = {
    "append_many.partition": (partial(_append_many, 1), 5),
    "append_many.partitions16": (partial(_append_many, PARTITIONS), 5),
    "append_many.again": (_append_again, 5),
    "receipts": (_receipts, 5),
    "read": (_read, 5),
    "read.pages": (_read_pages, 5),
    "read_batches": (_read_batches, 5),
    "subscribe": (_subscribe, 5),
    "view": (_view, 5),
    "transaction": (_transaction, 5),
    "trim": (_trim, 5),
    # Each is a call of its own, and some of them sync.
    "publish": (_publish, 4),
    "ack": (_acks, 3),
    "consumers": (_consumers, 3),
}
"""Each call, and with how many of the sizes it is measured."""


def _contenders(
    store: str, case: Case, numbers: tuple[int, ...], scratch: Path
) -> Mapping[str, Contender]:
    """The largest is ours; of the others, the one with a hundredth of it is compared."""
    small = numbers[-3] if len(numbers) > 3 else numbers[0]
    large = numbers[-1]
    return {
        OURS: partial(_rate, store, case, large, large, scratch),
        SMALL: partial(_rate, store, case, small, large, scratch),
        **{
            f"{number}": partial(_rate, store, case, number, VALUES_MIN, scratch)
            for number in numbers[:-1]
            if number != small
        },
    }


def _rate(store: str, case: Case, number: int, values: int, scratch: Path) -> float:
    """Make calls with `number` values each, and with about so many together."""
    count = max(1, min(values, CALLS_MAX * number) // number)
    with fresh(scratch) as path, closing(_opened(store, path)) as log:
        case(log, "first", min(VALUES_MIN, number))()
        calls = [case(log, f"topic-{each}", number) for each in range(count)]
        started = now()
        for call in calls:
            call()
        return number * count / (now() - started)


def _opened(store: str, path: Path) -> Log:
    return sl.open("memory:" if store == "memory" else f"{store}:{path}")


def _topic_contenders(
    store: str, numbers: tuple[int, int], scratch: Path
) -> Mapping[str, Contender]:
    few, many = numbers
    return {
        OURS: partial(_topic_rate, _with_topics(store, scratch / "many", many), count()),
        SMALL: partial(_topic_rate, _with_topics(store, scratch / "few", few), count()),
    }


def _with_topics(store: str, path: Path, number: int) -> Log:
    log = _opened(store, path)
    for each in range(number):
        log.create_topic(f"topic-{each}")
    return log


def _topic_rate(log: Log, numbers: "count[int]") -> float:
    started = now()
    for _ in range(CREATED):
        log.create_topic(f"later-{next(numbers)}")
    return CREATED / (now() - started)
