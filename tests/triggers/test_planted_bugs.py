"""The tests of triggers are worth what they find: bugs planted in them are found by one."""

import pytest

import strandline as sl
from strandline.subscriptions import dead_letters
from strandline.subscriptions.dead_letters import DeadLettering
from strandline.subscriptions.redriving import _Redrive
from strandline.testing import FakeClock
from strandline.triggers import calls as calls_of
from strandline.triggers import dispatch, handled_keys, lanes, settling, subjects, turns
from strandline.triggers.triggers import _Run
from tests.planting import Planted, bug_in
from tests.subscriptions import test_dead_letter_tools
from tests.triggers import (
    calls,
    test_endings,
    test_handled_keys,
    test_lanes,
    test_redriving,
    test_runs_of_calls,
    test_triggers,
)

pytestmark = pytest.mark.heavy


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
    test_endings.test_a_stop_lets_functions_end(FakeClock())


def handing_back() -> None:
    test_endings.test_what_does_not_end_in_time_is_handed_back(orders(), orders)


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
    test_handled_keys.test_what_failed_is_not_kept(lambda: log, clock)


def keys_across_partitions() -> None:
    test_handled_keys.test_two_of_one_key_wait_for_each_other_also_across_partitions(FakeClock())


def keys_removed() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_handled_keys.test_keys_that_nothing_can_repeat_are_removed(FakeClock(), patch)


def a_lagging_partition() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_handled_keys.test_a_partition_that_lags_keeps_the_keys_that_it_may_repeat(
            FakeClock(), patch
        )


def two_lanes() -> None:
    test_lanes.test_who_is_in_two_lanes_waits_for_both()


def two_redrivers() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_redriving.test_two_processes_that_redrive_at_once_redrive_each_once(orders(), patch)


def redriven() -> None:
    test_redriving.test_dead_letters_go_to_their_trigger_once_more_and_to_no_other(orders())


def dying_again() -> None:
    test_dead_letter_tools.test_a_record_that_fails_again_after_its_dead_letter_was_handled_is_one_again(
        shared=False
    )


def a_slow_function() -> None:
    test_runs_of_calls.test_a_call_may_wait_for_that_of_the_next_record_if_a_place_is_free(False)


def a_slow_task() -> None:
    test_runs_of_calls.test_a_call_may_wait_for_that_of_the_next_record_if_a_place_is_free(True)


def tasks() -> None:
    test_runs_of_calls.test_no_more_tasks_wait_at_once_than_concurrency_says()


def a_stop_in_the_middle() -> None:
    test_runs_of_calls.test_a_stop_in_the_middle_settles_what_began_and_hands_back_the_rest(
        test_runs_of_calls.blocking, orders()
    )


def a_lost_lease() -> None:
    test_runs_of_calls.test_a_lease_that_is_lost_in_the_middle_ends_the_calls_for_its_records(False)


def variables() -> None:
    test_runs_of_calls.test_a_call_sees_the_variables_of_the_runner_and_of_no_other_call(
        test_runs_of_calls.on_the_loop
    )


def a_cancelled_task() -> None:
    test_runs_of_calls.test_a_call_that_cancels_its_own_task_cancels_no_other()


def values() -> None:
    test_runs_of_calls.test_records_that_wait_for_their_key_come_with_their_value_however_many(
        test_runs_of_calls.blocking
    )


CALLS = calls_of.Calls
DISPATCH = dispatch.Dispatch
TURNS = turns.Turns
KEYS = handled_keys.HandledKeys


BUGS = (
    bug_in(DISPATCH, "_enter", "delayed.delivered = entry.delivered", "pass", retries),
    bug_in(DISPATCH, "_fail", "_.retry[_]", "self.trigger.retry[0]", retries),
    bug_in(DISPATCH, "_note_end", "self._timer.fire_in(...)", "pass", retries),
    bug_in(
        subjects,
        "lanes_of",
        "(_, record.partition, record.key)",
        "('key', record.offset)",
        concurrency,
    ),
    bug_in(
        DISPATCH,
        "_fail",
        "self._turns.pass_over(failed)",
        "self._turns.leave_lanes(entry); _",
        a_key_that_waits,
    ),
    bug_in(settling.Settling, "_give_up", "_.dead_letter(...)", "pass", redriven),
    bug_in(DeadLettering, "dead_letter", "self._acks.settle(...)", "pass", redriven),
    bug_in(
        DISPATCH,
        "_finish_calls",
        "await asyncio.wait(waits, ...)",
        "pass",
        a_stop,
    ),
    bug_in(CALLS, "_outcome", "self._is_stopping", "False", handing_back),
    bug_in(CALLS, "_outcome_of", "error is not None", "False", any_error),
    bug_in(KEYS, "catch_up", "self._log.read(...)", "()", a_window),
    bug_in(
        KEYS,
        "is_handled",
        "_ < self._window_us",
        "abs(timestamp_us - each) <= self._window_us",
        a_window,
    ),
    bug_in(settling.Settling, "_store_keys", "self._keys.store(...)", "pass", a_window),
    bug_in(
        settling.Settling,
        "_store_keys",
        "one.verdict is Verdict.HANDLED",
        "True",
        failures_and_keys,
    ),
    bug_in(
        TURNS,
        "_note",
        "self._leave_lanes(entry)",
        "pass",
        concurrency,
    ),
    bug_in(lanes.KeyLanes, "_is_first", "all", "any", two_lanes),
    bug_in(subjects, "lanes_of", "entry.key is not None", "False", keys_across_partitions),
    bug_in(KEYS, "trim", "self._log.trim(...)", "pass", keys_removed),
    bug_in(
        settling.Settling,
        "_find_horizon",
        "following < marks.high",
        "False",
        a_lagging_partition,
    ),
    bug_in(TURNS, "has_free_place", "_ < self._concurrency", "True", tasks),
    bug_in(TURNS, "begin", "self._notify_loop()", "pass", keys_across_partitions),
    bug_in(CALLS, "_work", "self._wake_worker()", "pass", a_slow_function),
    bug_in(CALLS, "_work_on_loop", "self._wake_worker()", "pass", a_slow_task),
    bug_in(_Run, "request_stop", "self._stop.may_begin = False", "pass", a_stop_in_the_middle),
    bug_in(CALLS, "_is_ended", "not entry.is_held", "False", a_lost_lease),
    bug_in(CALLS, "_work_on_loop", "self._context.copy()", "self._context", variables),
    bug_in(CALLS, "_work_on_loop", "task.cancelling()", "False", a_cancelled_task),
    bug_in(CALLS, "_is_ended", "self._subjects.restore(entry)", "pass", values),
    bug_in(_Redrive, "_redrive_one", "self._identity(...)", "None", two_redrivers),
    bug_in(dead_letters, "redriven_letters", "int(...)", "-1", redriven),
    bug_in(
        dead_letters,
        "append_dead_letter",
        "receipt.offset not in redriven_letters(log, topic)",
        "True",
        dying_again,
    ),
)


@pytest.mark.parametrize("planted", BUGS, ids=str)
def test_a_planted_bug_is_found(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.scenario()

    monkeypatch.setattr(calls, "PATIENCE_S", 1.0)

    with planted.bug.planted(), pytest.raises((Exception, pytest.fail.Exception)):
        planted.scenario()
