"""A partition is read again after a notification: later records may come without one."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.stores.files.watching import TOUCH_S, TailChanges
from strandline.testing import FakeClock
from tests.logs import file_log
from tests.planting import Bug

A: Any = "a"
B: Any = "b"


class Notices:
    """A change source whose notices a test sends; a wait without one takes its time."""

    is_for_readers = True

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.sent: list[Collection[Any] | BaseException] = []
        self.waits: list[float | None] = []

    def wait(self, timeout_s: float | None = None, /) -> Collection[Any]:
        self.waits.append(timeout_s)
        if self.sent:
            noticed = self.sent.pop(0)
            if isinstance(noticed, BaseException):
                raise noticed
            return noticed
        assert timeout_s is not None, "a wait that nothing ends"
        # A little more: the sum of two times is rounded.
        self._clock.advance(timeout_s + 1e-6)
        return ()

    def add(self, place: Any, /) -> None: ...

    def remove(self, place: Any, /) -> None: ...

    def found(self) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


def watched(*places: Any) -> tuple[FakeClock, Notices, TailChanges]:
    clock = FakeClock()
    notices = Notices(clock)
    changes = TailChanges(notices, clock)
    for place in places:
        changes.add(place)
    return clock, notices, changes


def test_a_noticed_partition_is_reported_again_when_stores_may_have_followed() -> None:
    _, notices, changes = watched(A, B)
    notices.sent = [[A]]

    assert set(changes.wait()) == {A}
    assert set(changes.wait()) == {A}
    assert notices.waits == [None, pytest.approx(TOUCH_S)]
    # And not a third time.
    notices.sent = [[B]]
    assert set(changes.wait()) == {B}
    assert notices.waits[-1] is None


def test_a_notice_puts_the_second_look_off_as_it_is_a_look_itself() -> None:
    clock, notices, changes = watched(A)
    notices.sent = [[A], [A]]

    assert set(changes.wait()) == {A}
    clock.advance(TOUCH_S / 2)
    assert set(changes.wait()) == {A}
    # Stores may follow the second notice for as long as they may any.
    assert set(changes.wait()) == {A}
    assert notices.waits[-1] == pytest.approx(TOUCH_S)


def test_partitions_are_looked_at_again_each_at_its_own_time() -> None:
    clock, notices, changes = watched(A, B)
    notices.sent = [[A], [B]]

    assert set(changes.wait()) == {A}
    clock.advance(TOUCH_S * 0.75)
    assert set(changes.wait()) == {B}
    assert set(changes.wait()) == {A}
    assert set(changes.wait()) == {B}


def test_a_wait_that_was_interrupted_has_everything_looked_at_again() -> None:
    _, notices, changes = watched(A, B)
    notices.sent = [KeyboardInterrupt()]

    with pytest.raises(KeyboardInterrupt):
        changes.wait()
    assert set(changes.wait()) == {A, B}


def test_a_partition_that_is_watched_no_more_is_not_looked_at_again() -> None:
    _, notices, changes = watched(A, B)
    notices.sent = [[A, B]]

    changes.wait()
    changes.remove(A)
    assert set(changes.wait()) == {B}


def test_a_partition_that_is_not_looked_at_again_is_noticed() -> None:
    bug = Bug("one look", TailChanges, "wait", "self._look_again(noticed)", "pass")
    with bug.planted():
        _, notices, changes = watched(A)
        notices.sent = [[A]]
        changes.wait()
        with pytest.raises(AssertionError, match="nothing ends"):
            changes.wait()


def test_a_subscription_gets_the_last_of_a_burst(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/log"
    with sl.open(url) as log, file_log(str(tmp_path / "log"), mode="read") as reader:
        log.create_topic("t")
        log.append("t", sl.Event("first"))
        with reader.subscribe("t") as subscription:
            seen = 0
            for burst in range(20):
                for number in range(50):
                    log.append("t", sl.Event("k", [burst, number]))
                while seen < 1 + 50 * (burst + 1):
                    record = subscription.next(timeout_s=60)
                    assert record is not None
                    assert record.offset == seen
                    seen += 1
