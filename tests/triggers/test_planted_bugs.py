"""The tests of triggers are worth what they find: bugs planted in them are found by one."""

from collections.abc import Callable
from typing import Any

import pytest

import strandline as sl
from strandline.subscriptions import Consumer, parking, replaying
from strandline.testing import FakeClock
from strandline.triggers import dispatch, handled_keys, lanes, settling, workers
from tests.conformance.planted_bugs import Bug
from tests.triggers import calls, test_handled_keys, test_lanes, test_replaying, test_triggers

pytestmark = pytest.mark.slow

Scenario = Callable[[], None]


def orders() -> sl.Log:
    log = sl.open("memory:")
    log.create_topic("orders", partitions=2)
    return log


def retries() -> None:
    test_triggers.test_a_failure_is_tried_again_by_its_schedule_with_the_count(FakeClock())


def concurrency() -> None:
    test_triggers.test_as_many_run_at_once_as_concurrency_says_and_one_of_a_key()


def a_key_that_waits() -> None:
    test_triggers.test_a_record_that_waits_for_its_retry_holds_up_its_key_alone(FakeClock())


def a_stop() -> None:
    test_triggers.test_a_stop_lets_functions_end(FakeClock())


def handing_back() -> None:
    test_triggers.test_what_does_not_end_in_time_is_handed_back(orders(), orders)


def any_error() -> None:
    test_triggers.test_whatever_a_function_raises_harms_no_other(StopIteration())


def a_window() -> None:
    clock = FakeClock()
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    test_handled_keys.test_a_key_is_handled_once_within_its_window_across_restarts(
        lambda: log, clock
    )


def failures_and_keys() -> None:
    clock = FakeClock()
    log = sl.open("memory:", clock=clock)
    log.create_topic("orders", partitions=2)
    test_handled_keys.test_what_failed_is_not_remembered(lambda: log, clock)


def keys_across_partitions() -> None:
    test_handled_keys.test_two_of_one_key_wait_for_each_other_also_across_partitions(FakeClock())


def keys_let_go() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_handled_keys.test_keys_that_nothing_can_repeat_are_let_go(FakeClock(), patch)


def a_lagging_partition() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_handled_keys.test_a_partition_that_lags_keeps_the_keys_that_it_may_repeat(
            FakeClock(), patch
        )


def two_lanes() -> None:
    test_lanes.test_who_is_in_two_lanes_waits_for_both()


def two_replayers() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_replaying.test_two_who_replay_at_the_same_time_replay_once(orders(), patch)


def replays() -> None:
    test_replaying.test_parked_records_go_to_their_trigger_once_more_and_to_nobody_else(orders())


def replays_of_replays() -> None:
    test_replaying.test_what_fails_again_is_parked_anew_and_can_be_replayed_anew(orders())


DISPATCH = dispatch.Dispatch
KEYS = handled_keys.HandledKeys

BUGS: tuple[tuple[Any, str, str, str, Scenario], ...] = (
    (DISPATCH, "_take", "entry.count = delivery.count", "pass", retries),
    (DISPATCH, "_fail", "retry[entry.attempt - 1]", "retry[0]", retries),
    (DISPATCH, "_settle", "self._alarm.ring_in(finished.delay_s)", "pass", retries),
    (DISPATCH, "_lanes_of", "record.partition, record.key", "record.offset", concurrency),
    (
        DISPATCH,
        "_fail",
        "self._finish(entry, Verdict.FAILED, error, delay_s=delay_s)",
        "self._finish(entry, Verdict.FAILED, error, delay_s=delay_s, holds_lanes=True)",
        a_key_that_waits,
    ),
    (settling.Settling, "_give_up", "one.source.park(", "(lambda *_, **__: None)(", replays),
    (Consumer, "_park", "self.ack(record)", "pass", replays),
    (
        DISPATCH,
        "_finish_calls",
        "await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)",
        "pass",
        a_stop,
    ),
    (DISPATCH, "_handle", "if not self._is_stopping:", "if True:", handing_back),
    (workers, "_carried", "not isinstance(error, StopIteration)", "True", any_error),
    (KEYS, "_load", "self._log.read(self._notes, 0, low)", "()", a_window),
    (KEYS, "is_handled", "< self._window_us", "<= self._window_us", a_window),
    (settling.Settling, "_store_keys", "self._keys.store(handled)", "pass", a_window),
    (settling.Settling, "_store_keys", "one.verdict is Verdict.HANDLED", "True", failures_and_keys),
    (
        DISPATCH,
        "_handle",
        "self._finish(entry, Verdict.HANDLED, holds_lanes=True)",
        "self._finish(entry, Verdict.HANDLED, holds_lanes=False)",
        concurrency,
    ),
    (lanes.Lanes, "_is_first", "all(", "any(", two_lanes),
    (DISPATCH, "_lanes_of", "entry.key is not None", "False", keys_across_partitions),
    (KEYS, "trim", "self._log.trim(self._notes, 0, before)", "pass", keys_let_go),
    (
        settling.Settling,
        "_look_for_horizon",
        "if following < marks.high:",
        "if False:",
        a_lagging_partition,
    ),
    (replaying, "replay_parked", 'f"{parking.id}/{parked.offset}"', "None", two_replayers),
    (replaying, "_replayed", "int(record.headers[_PARKED])", "-1", replays),
    (parking, "park", 'f"{identity}/{replay}"', "identity", replays_of_replays),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug[1]}-{bug[4].__name__}")
def test_a_planted_bug_is_found(
    bug: tuple[Any, str, str, str, Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, function, right, wrong, scenario = bug
    scenario()

    monkeypatch.setattr(calls, "PATIENCE_S", 1.0)
    Bug(home, function, right, wrong, scenario.__name__).plant(monkeypatch)

    with pytest.raises((Exception, pytest.fail.Exception)):
        scenario()
