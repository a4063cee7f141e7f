"""E26: a key is handled once within its window, also across restarts."""

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

import strandline as sl
from strandline.testing import FakeClock
from strandline.triggers import Counters, Triggers, handled_keys, settling, subjects
from strandline.triggers.handled_keys import HandledKey, HandledKeys, digest_of
from strandline.values import InvalidError
from tests.logs import SCHEMES
from tests.triggers.calls import Calls, cursors, wait_until

Reopen = Callable[[], sl.Log]


@pytest.fixture(params=SCHEMES)
def reopen(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Reopen]:
    """Return what closes the log and opens it again; a log in memory stays as it is."""
    opened: list[sl.Log] = []

    def again() -> sl.Log:
        if request.param == "memory":
            if not opened:
                opened.append(sl.open("memory:", clock=clock))
            return opened[0]
        if opened:
            opened.pop().close()
        opened.append(sl.open(f"{request.param}:{tmp_path / 'events'}", clock=clock))
        return opened[-1]

    again().create_topic("orders", partitions=2)
    yield again
    opened[-1].close()


def order(log: sl.Log, number: object, partition: int = 0, *, key: str | None = None) -> None:
    event = sl.Event("order", {"id": number}, key=key)
    assert log.append("orders", event, partition=partition).is_settled


def handled(log: sl.Log, calls: Calls, clock: FakeClock, **terms: Any) -> Counters:
    """Run a trigger until it has handled everything, and return what it counted."""
    triggers = Triggers(log, clock=clock)
    terms = {"name": "billing", "dedupe_key": "id", "dedupe_window_s": 60, **terms}
    triggers.on("orders", **terms)(lambda record: calls.note(record.payload["id"]))
    ends = [log.marks("orders", partition).high for partition in range(2)]
    with triggers:
        wait_until(lambda: [each or 0 for each in cursors(log, "billing")] == ends)
    return triggers.metrics()["billing"]


@pytest.mark.slow
def test_a_key_is_handled_once_within_its_window_across_restarts(
    reopen: Reopen, clock: FakeClock
) -> None:
    calls = Calls()
    log = reopen()
    order(log, "a")
    order(log, "a")
    order(log, "b", partition=1)
    assert handled(log, calls, clock) == Counters(handled=2, deduplicated=1)

    clock.advance(59)
    log = reopen()
    order(log, "a", partition=1)
    assert handled(log, calls, clock) == Counters(deduplicated=1)

    clock.advance(1)
    log = reopen()
    order(log, "a")
    order(log, "a")
    assert handled(log, calls, clock) == Counters(handled=1, deduplicated=1)
    assert sorted(calls.seen) == ["a", "a", "b"]


def test_how_late_a_record_is_handled_does_not_matter(reopen: Reopen, clock: FakeClock) -> None:
    calls = Calls()
    log = reopen()
    order(log, "a")
    handled(log, calls, clock)
    order(log, "a")
    clock.advance(3600)

    assert handled(reopen(), calls, clock) == Counters(deduplicated=1)


def test_a_window_of_nothing_lets_a_key_come_again(reopen: Reopen, clock: FakeClock) -> None:
    log = reopen()
    order(log, "a")
    order(log, "a")

    assert handled(log, Calls(), clock, dedupe_window_s=0) == Counters(handled=2)


@pytest.mark.slow
def test_what_failed_is_not_kept(reopen: Reopen, clock: FakeClock) -> None:
    log = reopen()
    calls = Calls()
    triggers = Triggers(log, clock=clock)

    @triggers.on("orders", name="billing", dedupe_key="id", retry=[])
    def bill(record: sl.Record) -> None:
        calls.note(record.offset)
        if record.offset == 0:
            raise ValueError("not this one")

    order(log, "a")
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 1)
    order(log, "a")
    order(log, "a")
    with triggers:
        wait_until(lambda: cursors(log, "billing")[0] == 3)

    assert calls.seen == [0, 1]
    assert triggers.metrics()["billing"] == Counters(handled=1, deduplicated=1)


def test_two_of_one_key_wait_for_each_other_also_across_partitions(clock: FakeClock) -> None:
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    calls, keys, gate = Calls(), Calls(), threading.Event()
    triggers = Triggers(log, clock=clock)

    def key_of(record: sl.Record) -> str:
        keys.note((record.partition, record.offset))
        return "same"

    @triggers.on("orders", name="billing", dedupe_key=key_of, concurrency=4)
    def bill(record: sl.Record) -> None:
        calls.note((record.partition, record.offset))
        assert gate.wait(20)

    for partition in (0, 1, 0, 1):
        order(log, "a", partition)
    with triggers:
        calls.wait_for(1)
        keys.wait_for(4)
        gate.set()
        wait_until(lambda: cursors(log, "billing") == [2, 2])

    assert len(calls.seen) == 1


def test_no_key_is_no_key(clock: FakeClock) -> None:
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    for _ in range(2):
        log.append("orders", sl.Event("order", {"id": None}), partition=0)
        log.append("orders", sl.Event("order", {"id": None, "other": 1}), partition=0)

    assert handled(log, Calls(), clock) == Counters(handled=4)
    assert handled(log, Calls(), clock, name="billing", dedupe_key="x") == Counters()


def test_a_key_that_cannot_be_had_is_a_failure(clock: FakeClock) -> None:
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    order(log, "a")

    def fails(record: sl.Record) -> str:
        raise LookupError("no such thing")

    assert handled(log, Calls(), clock, dedupe_key=fails, retry=[]) == Counters(dead_lettered=1)
    (letter,) = log.read("__strandline.dead_letters.orders", 0, 0)
    assert letter.headers["strandline.reason"] == "LookupError: no such thing"


@pytest.mark.slow
def test_two_triggers_deduplicate_each_for_itself(log: sl.Log) -> None:
    calls = Calls()
    triggers = Triggers(log)
    for name in ("billing", "shipping"):
        triggers.on("orders", name=name, dedupe_key="id")(lambda record: calls.note(1))
    order(log, "a")
    order(log, "a")
    with triggers:
        calls.wait_for(2)
        wait_until(lambda: cursors(log, "billing")[0] == cursors(log, "shipping")[0] == 2)

    assert calls.seen == [1, 1]


def test_a_crash_between_the_key_and_the_ack_calls_nothing_twice(clock: FakeClock) -> None:
    """The key is stored first: the record comes again, and is known."""
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    order(log, "a")
    topic = log.topic("orders")
    keys = HandledKeys(log, topic, "billing", 60_000_000)
    keys.store([HandledKey(digest_of("a"), next(log.read("orders", 0, 0)).timestamp_us)])
    calls = Calls()

    assert handled(log, calls, clock) == Counters(deduplicated=1)
    assert calls.seen == []


def test_keys_that_nothing_can_repeat_are_removed(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "_NOTES_BETWEEN_TRIMS", 1)
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    kept = []
    for number in range(5):
        order(log, number)
        handled(log, Calls(), clock)
        clock.advance(40)
        (notes,) = [t for t in log.topics(internal=True) if ".handled." in t.name]
        marks = log.marks(notes, 0)
        kept.append(marks.high - marks.low)

    assert kept == [1, 2, 2, 2, 2]


def test_a_partition_that_lags_keeps_the_keys_that_it_may_repeat(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "_NOTES_BETWEEN_TRIMS", 1)
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    calls, gate = Calls(), threading.Event()
    triggers = Triggers(log, clock=clock)

    @triggers.on("orders", name="billing", dedupe_key="id", dedupe_window_s=60, concurrency=2)
    def bill(record: sl.Record) -> None:
        calls.note(record.payload["id"])
        if record.payload["id"] == "slow":
            assert gate.wait(20)

    order(log, "a")
    order(log, "slow", partition=1, key="k")
    order(log, "a", partition=1, key="k")
    with triggers:
        for number in range(3):
            calls.wait_for(2 + number)
            clock.advance(40)
            order(log, number)
        calls.wait_until(lambda seen: 2 in seen)
        gate.set()
        wait_until(lambda: cursors(log, "billing") == [4, 2])

    assert sorted(map(str, calls.seen)) == ["0", "1", "2", "a", "slow"]


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True], ids=["one run", "a restart after each call"])
def test_a_repeat_is_known_whatever_was_handled_in_between(restarts: bool) -> None:
    """Two of one key within the window, and one beyond it, in any three partitions."""
    found = {}
    for places in itertools.product(range(3), repeat=3):
        clock = FakeClock()
        log = sl.open("memory:", clock=clock)
        log.create_topic("orders", partitions=3)
        for place, name, wait_s in zip(
            places, ("first", "repeat", "late"), (1, 100, 0), strict=True
        ):
            log.append("orders", sl.Event("order", {"id": 7, "name": name}), partition=place)
            clock.advance(wait_s)
        found[places] = Calls()
        while not is_over(log):
            handle_some(log, found[places], clock, restarts=restarts)

    wrong = {places: calls.seen for places, calls in found.items() if not is_once(calls.seen)}
    assert wrong == {}


def handle_some(log: sl.Log, calls: Calls, clock: FakeClock, *, restarts: bool) -> None:
    """Run a trigger until everything is settled, or until its first call if it restarts."""
    triggers = Triggers(log, clock=clock)

    @triggers.on("orders", name="billing", dedupe_key="id", dedupe_window_s=60)
    def bill(record: sl.Record) -> None:
        calls.note(record.payload["name"])
        if restarts:
            triggers.request_stop()

    with triggers:
        wait_until(lambda: is_over(log) or not triggers.is_running)


def is_over(log: sl.Log) -> bool:
    partitions = range(3)
    return all(
        (log.cursor("orders", "billing", n) or 0) == log.marks("orders", n).high for n in partitions
    )


def is_once(seen: list[str]) -> bool:
    return sorted(name == "late" for name in seen) == [False, True]


@pytest.mark.slow
def test_a_memory_of_the_last_time_alone_is_found() -> None:
    class LastTimes(HandledKeys):
        last: dict[bytes, int] | None = None

        def add(self, handled: HandledKey) -> None:
            self.last = {**(self.last or {}), handled.key: handled.timestamp_us}

        def is_handled(self, key: bytes, timestamp_us: int) -> bool:
            return abs(timestamp_us - (self.last or {}).get(key, 0)) < 60_000_000

    with mock.patch.object(subjects, "HandledKeys", LastTimes), pytest.raises(AssertionError):
        test_a_repeat_is_known_whatever_was_handled_in_between(restarts=False)


def test_keys_expire_by_the_time_of_their_records(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handled_keys, "KEYS_MAX", 3)
    log = sl.open("memory:", clock=clock)
    keys = HandledKeys(log, log.create_topic("orders"), "billing", 10)
    for time_us in (500, 100, 300):
        keys.add(HandledKey(b"a", time_us))

    keys.add(HandledKey(b"a", 400))
    kept = [time_us for time_us in range(0, 600, 100) if keys.is_handled(b"a", time_us + 9)]
    keys.expire(410)

    assert kept == [300, 400, 500]
    assert [keys.is_handled(b"a", time_us) for time_us in (300, 400, 500)] == [False, False, True]
    assert len(keys) == 1


def test_keys_are_distinguished_by_their_json() -> None:
    keys: list[object] = ["1", 1, None, True, [1], {"a": 1, "b": 2}, ""]

    assert len({digest_of(key) for key in keys}) == len(keys)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    with pytest.raises(InvalidError, match="JSON"):
        digest_of(object())


@pytest.mark.parametrize(
    "equal",
    [
        ("1", "1.0", "1e0", "10e-1"),
        ("0", "-0", "0.0", "-0.0", "0e5"),
        ("10000000000000000", "1e16"),
        ('{"a": [1, {"b": 2}]}', '{"a": [1.0, {"b": 2e0}]}'),
        ("1.5", "15e-1"),
    ],
)
def test_numbers_that_are_equal_in_json_are_one_key(equal: tuple[str, ...]) -> None:
    digests = {digest_of(msgspec.json.decode(text)) for text in equal}

    assert len(digests) == 1


def test_different_json_is_different_keys() -> None:
    texts = ("1", '"1"', "true", "1.5", "2", "[1]", '{"1": 1}', "null", "1e300", "1e301", '""')

    assert len({digest_of(msgspec.json.decode(text)) for text in texts}) == len(texts)


def test_the_digest_of_a_text_or_an_integer_stays_as_it_was_stored() -> None:
    assert digest_of(17).hex() == "1f749db43a13a74afd40d9b0a4fd3fef"
    assert digest_of("a").hex() == "dbea35bc7f21752194bf49390c6f6a35"
    assert digest_of({"b": 1, "a": [2]}).hex() == "02d705cc41d881cbb9757b45f5284d10"
