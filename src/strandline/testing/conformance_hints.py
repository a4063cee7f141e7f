"""Rules about hints. Every public function is a rule."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial

from strandline.log import Hint, Log, Watch
from strandline.testing.conformance_checks import (
    PATIENCE_S,
    OpenLog,
    event,
    fill,
    refused,
    started,
    together,
)
from strandline.values import (
    ClosedError,
    Durability,
    InvalidError,
    Offset,
    Partition,
    Topic,
)


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

    assert _ends_hinted(watch, {0: 1, 1: 2}) == {0: 1, 1: 2}
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

    assert _ends_hinted(watch, {1: 1}) == {1: 1}
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


def a_waiting_reader_is_woken_by_an_append(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    watch = log.watch()
    watch.add("orders", 0, 0)

    waiting = started(watch.wait)
    log.append("orders", event(0))

    assert _ends(waiting.result(PATIENCE_S)) == {0: 1}
    watch.close()


def a_waiting_task_is_woken_by_an_append(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    watch = log.watch()
    watch.add("orders", 0, 0)

    async def wait_and_append() -> Collection[Hint]:
        waiting = asyncio.ensure_future(watch.wait_on_loop(PATIENCE_S))
        await asyncio.to_thread(log.append, "orders", event(0))
        return await waiting

    assert _ends(asyncio.run(wait_and_append())) == {0: 1}
    assert not asyncio.run(watch.wait_on_loop(0))
    watch.close()


def a_reader_that_follows_hints_misses_nothing(open_log: OpenLog) -> None:
    """WE6: regardless of races of appends and reads."""
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

    waiting = started(watch.wait)
    watch.wake()
    assert not waiting.result(PATIENCE_S)

    watch.wake()
    assert not started(watch.wait).result(PATIENCE_S)
    watch.close()


def closing_a_watch_ends_its_wait(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    watch = log.watch()
    watch.add("orders", 0, 0)

    waiting = started(partial(_wait_closed, watch))
    watch.close()

    waiting.result(PATIENCE_S)
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

    waiting = [started(partial(_wait_closed, watch)) for watch in watches]
    log.close()

    for each in waiting:
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


def a_partition_of_a_dropped_topic_is_removed_without_a_word(open_log: OpenLog) -> None:
    log = open_log()
    topic = log.create_topic("orders", partitions=2)
    log.create_topic("other")
    watch = log.watch()
    for partition in (0, 1):
        watch.add(topic, partition, 0)
    watch.add("other", 0, 0)

    log.drop_topic(topic)
    watch.remove(topic, 0)
    watch.remove("orders", 1)
    watch.remove("orders", 1)
    watch.remove("never.was", 0)
    fill(log, "other", 1)

    hints = started(partial(_some_hints, watch)).result(PATIENCE_S)
    assert [hint.topic.name for hint in hints] == ["other"]
    watch.close()


def _some_hints(watch: Watch) -> Collection[Hint]:
    """Return the next hints; a removed partition may have woken the watch without a hint."""
    while not (hints := watch.wait()):
        pass
    return hints


def a_closed_watch_takes_no_partition(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    closed, left = log.watch(), log.watch()

    closed.close()
    with refused(ClosedError):
        closed.add("orders", 0, 0)
    log.close()
    with refused(ClosedError):
        left.add("orders", 0, 0)


def a_durable_watch_hints_at_what_is_durable(open_log: OpenLog) -> None:
    """Only a log that reaches durable has a durable watch; a written record gives no hint."""
    log = open_log()
    topic = log.create_topic("orders", partitions=2)
    if not _reaches_durable(log):
        with refused(InvalidError):
            log.watch(durable_only=True)
        return
    fill(log, "orders", 2)
    assert log.sync("orders", 0).durable == 2
    fill(log, "orders", 1)
    watch = log.watch(durable_only=True)
    for partition in (0, 1):
        watch.add("orders", partition, 0)

    (hint,) = watch.wait(PATIENCE_S)
    assert (hint.topic, hint.partition) == (topic, 0)
    assert 2 <= hint.end <= log.marks("orders", 0).durable
    fill(log, "orders", 3, partition=1)
    log.sync("orders", 1)
    latest: dict[int, int] = {}
    while latest.get(1) != 3:
        hints = watch.wait(PATIENCE_S)
        assert hints
        latest.update(_ends(hints))
    watch.close()


def a_waiting_reader_is_woken_by_a_sync(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    if not _reaches_durable(log):
        return
    watch = log.watch(durable_only=True)
    watch.add("orders", 0, 0)
    written = log.append("orders", event(0))

    waiting = started(watch.wait)
    written.wait(Durability.DURABLE)

    assert _ends(waiting.result(PATIENCE_S)) == {0: 1}
    waiting = started(watch.wait)
    log.append("orders", event(1), durability=Durability.DURABLE)
    assert _ends(waiting.result(PATIENCE_S)) == {0: 2}
    watch.close()


def a_durable_reader_that_follows_hints_misses_nothing(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    if not _reaches_durable(log):
        return
    count = 30

    def follow() -> None:
        watch, offset = log.watch(durable_only=True), 0
        while offset < 2 * count:
            watch.add("orders", 0, offset)
            assert watch.wait(PATIENCE_S)
            for record in log.read("orders", 0, offset, durable_only=True):
                assert record.offset == offset
                offset += 1
        watch.close()

    def produce() -> None:
        for number in range(count):
            log.append("orders", event(number), durability=Durability.DURABLE)

    together([follow, follow, produce, produce])


def _reaches_durable(log: Log) -> bool:
    return log.durability_max is Durability.DURABLE


def _wait_closed(watch: Watch) -> None:
    with refused(ClosedError):
        watch.wait()


def _ends(hints: Collection[Hint]) -> dict[int, int]:
    return {hint.partition: hint.end for hint in hints}


def _ends_hinted(watch: Watch, awaited: Mapping[int, int]) -> dict[int, int]:
    """Return the latest ends, once they are hinted; a store may report them one by one."""
    latest: dict[int, int] = {}
    while any(latest.get(partition, 0) < end for partition, end in awaited.items()):
        hints = watch.wait(PATIENCE_S)
        assert hints
        latest.update(_ends(hints))
    latest.update(_ends(watch.wait(0)))
    return latest
