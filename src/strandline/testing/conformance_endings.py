"""Rules about hints and about closing. Every public function is one."""

import asyncio
from collections.abc import Callable, Collection
from functools import partial

from strandline.log.protocol import Hint, Watch
from strandline.testing.conformance_checks import (
    PATIENCE_S,
    OpenLog,
    event,
    fill,
    refused,
    started,
    together,
)
from strandline.values import ClosedError, InvalidError, Offset, Partition, Topic, ValueKind


def a_watch_hints_at_what_is_there_already(open_log: OpenLog) -> None:
    log = open_log()
    topic = log.create_topic("orders", partitions=2)
    fill(log, "orders", 5)
    watch = log.watch()

    watch.add("orders", 0, 3)
    watch.add("orders", 1, 0)

    assert list(watch.wait(PATIENCE_S)) == [Hint(topic, Partition(0), Offset(5))]
    watch.close()


def a_watch_hints_at_what_is_appended(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=3)
    watch = log.watch()
    for partition in (0, 1):
        watch.add("orders", partition, 0)

    for partition in (1, 0, 1, 2):
        log.append("orders", event(0), partition=partition)

    assert _ends(_all_hints(watch, 2)) == {0: 1, 1: 2}
    watch.close()


def a_removed_partition_gives_no_hint(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    watch = log.watch()
    for partition in (0, 1):
        watch.add("orders", partition, 0)
    fill(log, "orders", 1, partition=0)

    watch.remove("orders", 0)
    watch.remove("orders", 0)
    fill(log, "orders", 1, partition=0)
    fill(log, "orders", 1, partition=1)

    assert _ends(_all_hints(watch, 1)) == {1: 1}
    watch.close()


def a_watch_spans_topics(open_log: OpenLog) -> None:
    log = open_log()
    topics = [log.create_topic(name) for name in ("a", "b")]
    watch = log.watch()
    for topic in topics:
        watch.add(topic, 0, 0)

    for topic in topics:
        fill(log, topic, 1)

    found: set[Topic] = set()
    while len(found) < len(topics):
        hints = watch.wait(PATIENCE_S)
        assert hints
        found.update(hint.topic for hint in hints)
    watch.close()


def a_sleeping_reader_is_woken_by_an_append(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    watch = log.watch()
    watch.add("orders", 0, 0)

    sleeping = started(watch.wait)
    log.append("orders", event(0))

    assert _ends(sleeping.result(PATIENCE_S)) == {0: 1}
    watch.close()


def a_sleeping_task_is_woken_by_an_append(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    watch = log.watch()
    watch.add("orders", 0, 0)

    async def sleep_and_append() -> Collection[Hint]:
        sleeping = asyncio.ensure_future(watch.moved(PATIENCE_S))
        await asyncio.to_thread(log.append, "orders", event(0))
        return await sleeping

    assert _ends(asyncio.run(sleep_and_append())) == {0: 1}
    assert not asyncio.run(watch.moved(0))
    watch.close()


def a_reader_that_follows_hints_misses_nothing(open_log: OpenLog) -> None:
    """WE6: however appends and reads race."""
    log = open_log()
    log.create_topic("orders", partitions=2)
    count = 200

    def follow(partition: int) -> None:
        watch, offset = log.watch(), 0
        while offset < 2 * count:
            watch.add("orders", partition, offset)
            assert watch.wait(PATIENCE_S)
            for record in log.read("orders", partition, offset):
                assert record.offset == offset
                offset += 1
        watch.close()

    def produce() -> None:
        for number in range(count):
            for partition in (0, 1):
                log.append("orders", event(number), partition=partition)

    readers: list[Callable[[], None]] = [partial(follow, 0), partial(follow, 1)]
    together([*readers, produce, produce])


def wake_ends_one_wait(open_log: OpenLog) -> None:
    log = open_log()
    watch = log.watch()

    sleeping = started(watch.wait)
    watch.wake()
    assert not sleeping.result(PATIENCE_S)

    watch.wake()
    assert not started(watch.wait).result(PATIENCE_S)
    watch.close()


def closing_a_watch_ends_its_wait(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    watch = log.watch()
    watch.add("orders", 0, 0)

    sleeping = started(partial(_wait_closed, watch))
    watch.close()

    sleeping.result(PATIENCE_S)
    watch.close()
    _wait_closed(watch)
    log.append("orders", event(0))


def closing_the_log_ends_every_wait(open_log: OpenLog) -> None:
    """WA7."""
    log = open_log()
    log.create_topic("orders")
    watches = [log.watch() for _ in range(3)]
    for watch in watches:
        watch.add("orders", 0, 0)

    sleeping = [started(partial(_wait_closed, watch)) for watch in watches]
    log.close()

    for each in sleeping:
        each.result(PATIENCE_S)


def dropping_a_topic_wakes_its_readers(open_log: OpenLog) -> None:
    log = open_log()
    topic = log.create_topic("orders")
    watch = log.watch()
    watch.add("orders", 0, 0)

    log.drop_topic("orders")

    assert [hint.topic for hint in watch.wait(PATIENCE_S)] == [topic]
    with refused(InvalidError):
        log.read(topic, 0, 0)
    watch.close()


def after_close_every_call_is_refused(open_log: OpenLog) -> None:
    """WA7."""
    log = open_log()
    topic = log.create_topic("orders")
    fill(log, "orders", 3)
    position = log.position("orders", 0, 1)

    log.close()
    log.close()

    calls: tuple[Callable[[], object], ...] = (
        lambda: log.create_topic("orders"),
        lambda: log.create_topic("new", value_kind=ValueKind.BYTES),
        lambda: log.topic("orders"),
        log.topics,
        lambda: log.describe_topic("orders"),
        lambda: log.change_retention("orders", retention_age_s=1, retention_bytes=None),
        lambda: log.drop_topic(topic),
        lambda: log.append("orders", event(0)),
        lambda: log.append_many("orders", [event(0)]),
        lambda: log.append_many("orders", []),
        lambda: log.trim("orders", 0, 1),
        lambda: log.apply_retention("orders"),
        lambda: log.read("orders", 0, 0),
        lambda: log.read_batches("orders", 0, 0),
        lambda: log.marks("orders", 0),
        lambda: log.offset_at("orders", 0, 0),
        lambda: log.epochs("orders", 0),
        lambda: log.segments("orders", 0),
        lambda: log.position("orders", 0, 0),
        lambda: log.resolve(position),
        log.watch,
        lambda: log.ack("orders", "billing", 0, 1),
        lambda: log.seek("orders", "billing", 0, 1),
        lambda: log.cursor("orders", "billing", 0),
        lambda: log.consumers("orders"),
        lambda: log.forget("orders", "billing"),
        lambda: log.sync("orders", 0),
        log.flush,
        log.describe,
    )
    for call in calls:
        with refused(ClosedError):
            call()


def a_log_closes_at_the_end_of_its_block(open_log: OpenLog) -> None:
    with open_log() as log:
        log.create_topic("orders")

    with refused(ClosedError):
        log.topics()


def an_append_that_races_a_close_is_whole_or_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")

    def produce() -> int:
        appended = 0
        try:
            while appended < 100_000:
                log.append("orders", event(appended))
                appended += 1
        except ClosedError:
            pass
        return appended

    def close() -> int:
        log.close()
        return 0

    together([produce, produce, close])

    with refused(ClosedError):
        log.append("orders", event(0))


def _wait_closed(watch: Watch) -> None:
    with refused(ClosedError):
        watch.wait()


def _ends(hints: Collection[Hint]) -> dict[int, int]:
    return {hint.partition: hint.end for hint in hints}


def _all_hints(watch: Watch, partitions: int) -> Collection[Hint]:
    """Return the latest hint of so many partitions; a backend may pass them on one by one."""
    latest: dict[int, Hint] = {}
    while len(latest) < partitions:
        hints = watch.wait(PATIENCE_S)
        assert hints
        latest.update((hint.partition, hint) for hint in hints)
    latest.update((hint.partition, hint) for hint in watch.wait(0))
    return latest.values()
