"""Followers: waiting for events and reading them in one call, with no wake-up lost."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log
from strandline.log.parts import follower_of
from strandline.predicates import PredicateEvalError
from strandline.subscriptions import pages
from strandline.subscriptions.following import Following
from strandline.subscriptions.screening import FEW_RECORDS
from strandline.testing.conformance_checks import started
from tests.core.plain import needs_core
from tests.logs import file_log
from tests.triggers.calls import wait_until

pytestmark = [
    needs_core,
    pytest.mark.skipif(sys.platform != "linux", reason="notices of changed files are Linux's"),
]

PATIENCE_S = 60.0
MANY = 1000
WRITER = """
import sys, strandline as sl
with sl.open(sys.argv[1]) as log:
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            log.append("t", sl.Event("k", {"n": 1}))
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with file_log(str(tmp_path / "log")) as opened:
        opened.create_topic("t")
        opened.append("t", sl.Event("first"))
        opened.append("t", sl.Event("second"))
        yield opened


def at_end(log: Log, name: str = "t") -> tuple[Any, int]:
    end = log.marks(name, 0).high
    return follower_of(log, log.topic(name), 0, end), end


def taken(follower: Any, start: int, count: int) -> list[int]:
    """Return the offsets of so many events, whichever calls they come with."""
    found: list[int] = []
    while len(found) < count:
        records = follower.wait(start + len(found), MANY, PATIENCE_S)
        assert records, f"{len(found)} of {count} came"
        found += [record.offset for record in records]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("core", ["on", "off"])
def test_what_another_process_appends_is_found_without_a_poll(
    log: Log, tmp_path: Path, core: str
) -> None:
    follower, start = at_end(log)
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, f"file:{tmp_path}/log"],
        env={**os.environ, "STRANDLINE_CORE": core},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline()

    for burst in range(1, 60):
        child.stdin.write(f"{burst % 7 + 1}\n")
        child.stdin.flush()
        count = burst % 7 + 1
        if burst == 1:
            # The first one may begin an epoch, which is Python's to look at.
            while log.marks("t", 0).high < start + count:
                pass
            start += count
            follower, _ = at_end(log)
            continue
        assert taken(follower, start, count) == list(range(start, start + count))
        start += count

    child.stdin.close()
    assert child.wait(PATIENCE_S) == 0
    child.stdout.close()


def test_ends_that_are_only_stored_are_found(log: Log, reader: Log) -> None:
    follower, start = at_end(reader)
    for _ in range(200):
        log.append("t", sl.Event("noticed"))
        assert taken(follower, start, 1) == [start]
        # Most likely so soon that its end is not written, but stored.
        log.append("t", sl.Event("stored"))
        assert taken(follower, start + 1, 1) == [start + 1]
        start += 2


def test_threads_that_follow_one_partition_all_get_everything(log: Log) -> None:
    found: list[list[int]] = []

    def follow(follower: Any, start: int) -> None:
        found.append(taken(follower, start, 300))

    pairs = [at_end(log) for _ in range(4)]
    threads = [threading.Thread(target=follow, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for _ in range(300):
        log.append("t", sl.Event("k"))
    for thread in threads:
        thread.join(PATIENCE_S)

    assert found == [list(range(2, 302))] * 4


def append_with_terms(log: Log, _: Path) -> None:
    log.append("t", sl.Event("k"), idempotency_key="one")


def trim(log: Log, _: Path) -> None:
    log.trim("t", 0, 1)


def drop(log: Log, _: Path) -> None:
    log.drop_topic("t")


def seal(log: Log, _: Path) -> None:
    log.seal("t")


def replace(log: Log, folder: Path) -> None:
    (tail,) = folder.rglob("*.tail")
    shutil.copy(tail, tail.with_suffix(".copy"))
    tail.with_suffix(".copy").rename(tail)


@pytest.mark.parametrize("act", [append_with_terms, trim, drop, seal, replace])
def test_what_is_no_plain_event_is_left_to_python(
    log: Log, reader: Log, tmp_path: Path, act: Callable[[Log, Path], None]
) -> None:
    follower, start = at_end(reader)
    assert follower.wait(start, MANY, 0.0) is None

    act(log, tmp_path)

    assert follower.wait(start, MANY, PATIENCE_S) is NotImplemented
    assert follower.wait(start, MANY, 0.0) is NotImplemented


def test_a_follower_is_at_one_offset_and_returns_no_more_than_asked(log: Log) -> None:
    follower, start = at_end(log)

    assert follower.wait(start - 1, MANY, PATIENCE_S) is NotImplemented
    log.append_many("t", [sl.Event("k")] * 3)
    assert follower.wait(start, 2, PATIENCE_S) is NotImplemented
    assert [each.offset for each in follower.wait(start, 3, PATIENCE_S)] == [2, 3, 4]


def test_a_wait_is_woken_also_before_it_begins(log: Log) -> None:
    follower, start = at_end(log)

    follower.wake()
    assert follower.wait(start, MANY, PATIENCE_S) is None
    waiting = threading.Thread(target=follower.wait, args=(start, MANY, PATIENCE_S))
    waiting.start()
    follower.wake()
    waiting.join(PATIENCE_S / 2)
    assert not waiting.is_alive()


def wait_with_a_signal(follower: Any, start: int) -> None:
    sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))
    try:
        sender.start()
        follower.wait(start, MANY, PATIENCE_S)
    finally:
        sender.join()


def test_a_signal_interrupts_the_wait_of_one_who_leads_and_of_one_who_does_not(log: Log) -> None:
    def stop(_number: int, _frame: object) -> None:
        raise InterruptedError("by the test")

    before = signal.signal(signal.SIGUSR1, stop)
    other, start = at_end(log)
    follower, _ = at_end(log)
    leading = threading.Thread(target=other.wait, args=(start, MANY, PATIENCE_S))
    try:
        for is_second in (False, True):
            if is_second:
                leading.start()
            with pytest.raises(InterruptedError):
                wait_with_a_signal(follower, start)
    finally:
        signal.signal(signal.SIGUSR1, before)
        other.wake()
        leading.join(PATIENCE_S)
    log.append("t", sl.Event("k"))
    assert taken(follower, start, 1) == [start]


def test_few_tails_have_notices_and_the_last_follower_closes_them(log: Log) -> None:
    for number in range(10):
        log.create_topic(f"t{number}")
        log.append(f"t{number}", sl.Event("k"))
        log.append(f"t{number}", sl.Event("k"))
        assert log.marks(f"t{number}", 0).high == 2
    before = len(os.listdir("/proc/self/fd"))

    followers = [at_end(log, f"t{number}")[0] for number in range(10)]
    assert [each is None for each in followers] == [False] * 8 + [True] * 2
    opened = len(os.listdir("/proc/self/fd"))
    followers.clear()

    assert len(os.listdir("/proc/self/fd")) == opened - 2 * 8
    assert opened > before
    assert at_end(log, "t9")[0] is not None


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each wait of a subscription by a follower, whether the follower has answered it."""
    followed: list[bool] = []
    wait = Following.wait

    def counted(following: Following, timeout_s: float) -> list[sl.Record] | None:
        found = wait(following, timeout_s)
        followed.append(found is not None)
        return found

    monkeypatch.setattr(Following, "wait", counted)
    return followed


def test_a_subscription_follows_and_takes_up_what_a_follower_leaves(
    log: Log, followed: list[bool]
) -> None:
    with log.subscribe("t", start=2) as subscription:
        for number in range(2, 40):
            terms: Any = {"idempotency_key": f"{number}"} if number % 9 == 0 else {}
            log.append("t", sl.Event("k", number), **terms)
            record = subscription.next(PATIENCE_S)
            assert record is not None
            assert (record.offset, record.payload) == (number, number)

    assert sum(followed) >= 10
    assert not all(followed)


@pytest.fixture
def _never_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing be found but by a wake-up."""
    monkeypatch.setattr(pages, "POLL_S", 3600.0)


@pytest.mark.usefixtures("_never_polled")
def test_a_subscription_with_a_predicate_follows_and_gets_what_matches(
    log: Log, followed: list[bool]
) -> None:
    bursts = [1, 2, FEW_RECORDS, FEW_RECORDS + 1, 1, 100, 1, 1] * 3
    found: list[int] = []
    wanted: list[int] = []
    with log.subscribe("t", start=2, where="payload >= 0") as subscription:
        for burst in bursts:
            end = log.marks("t", 0).high
            payloads = [number if (end + number) % 3 else -1 for number in range(burst - 1)]
            log.append_many("t", [sl.Event("k", each) for each in [*payloads, 1]])
            wanted += [end + at for at, each in enumerate([*payloads, 1]) if each >= 0]
            while len(found) < len(wanted):
                found.append(next(subscription).offset)

    assert found == wanted
    assert sum(followed) >= len(bursts) / 2


@pytest.mark.usefixtures("_never_polled")
def test_a_record_that_does_not_match_is_left_out_also_if_it_comes_alone(log: Log) -> None:
    with log.subscribe("t", start=2, where="payload >= 0") as subscription:
        for _ in range(10):
            reading = started(lambda: next(subscription).payload)
            log.append("t", sl.Event("k", -1))
            log.append("t", sl.Event("k", 1))

            assert reading.result(PATIENCE_S) == 1


@pytest.mark.usefixtures("_never_polled")
def test_a_close_ends_a_loop_that_follows(log: Log) -> None:
    subscription = log.subscribe("t", start=2)
    for _ in range(3):
        reading = started(lambda: next(subscription))
        log.append("t", sl.Event("k"))
        reading.result(PATIENCE_S)
    waits = log.metrics().waits
    rest = started(lambda: list(subscription))
    wait_until(lambda: log.metrics().waits > waits)

    subscription.close()

    assert rest.result(PATIENCE_S) == []


@pytest.mark.usefixtures("_never_polled")
def test_a_record_on_which_a_predicate_fails_is_met_in_its_turn_also_live(
    log: Log, followed: list[bool]
) -> None:
    with log.subscribe("t", start=2, where="payload.n::INT = 7") as subscription:
        for offset in range(2, 10):
            log.append("t", sl.Event("k", {"n": 7}))
            assert next(subscription).offset == offset
        assert any(followed)
        for number in (7, "x", 7):
            log.append("t", sl.Event("k", {"n": number}))

        assert next(subscription).offset == 10
        for _ in range(3):
            with pytest.raises(PredicateEvalError):
                next(subscription)
        assert subscription.assignment.position(0) == 11
        subscription.assignment.remove(0)
        subscription.assignment.add(0, 12)
        assert next(subscription).offset == 12
