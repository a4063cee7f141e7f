"""Three answers: nothing, not ready, or the state; and what a view reports."""

import os
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import wait
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log
from strandline.stores.memory import MemoryStore
from strandline.testing import FakeClock
from strandline.views import Readiness
from tests.logs import OpenAgain
from tests.patience import wait_collected
from tests.threads import on_thread
from tests.views.accounts import (
    PATIENCE_S,
    Accounts,
    State,
    SteeredLog,
    catch_up,
    folded,
    moved,
    opened,
    running,
    state_of,
)


def gated(log: SteeredLog) -> threading.Event:
    """Keep reads back until the event is set."""
    gate = threading.Event()
    log.before_read = lambda partition, start: (gate.wait(PATIENCE_S), None)[1]
    return gate


def test_what_is_not_assigned_is_a_definite_nothing_tb9(log: Log) -> None:
    log.append("accounts", opened("ann", 5), partition=0)
    with sl.LiveView(log, "accounts", Accounts()) as view:
        assert view.read(0, dict) is None
        assert view.read(0, list, default=[]) == []
        assert view.assigned() == []
        assert (view.applied(0), view.committed(0), view.is_ready(0)) == (-1, -1, False)
        with pytest.raises(sl.InvalidError):
            view.read(2, dict)


def test_assigning_and_giving_up_drive_what_is_answered_tb8(log: Log) -> None:
    log.append("accounts", opened("ann", 5), partition=1)
    steered = SteeredLog(log)
    gate = gated(steered)
    with sl.LiveView(steered.as_log(), "accounts", Accounts()) as view:
        assert view.read(1, dict) is None

        view.reconcile([1])
        assert view.assigned() == [1]
        with pytest.raises(sl.NotReadyError) as caught:
            view.read(1, dict)
        assert caught.value.partition == 1
        gate.set()
        view.wait_ready(PATIENCE_S)
        assert state_of(view, 1) == {"ann": 5}

        view.reconcile([])
        assert view.assigned() == []
        assert view.read(1, dict) is None


def test_assigned_is_sorted_and_reconcile_leaves_the_rest_alone(log: Log) -> None:
    steered = SteeredLog(log)
    with running(steered.as_log(), 1, 0) as view:
        assert view.assigned() == [0, 1]
        asked = steered.marks_asked

        view.reconcile([0, 1])

        assert steered.marks_asked <= asked + 2, "nothing new needs a high-water mark"
        with pytest.raises(sl.InvalidError):
            view.reconcile([0, 2])
        assert view.assigned() == [0, 1]


def test_an_empty_partition_is_ready_at_once(log: Log) -> None:
    with running(log, 0) as view:
        assert state_of(view) == {}


def test_two_views_of_one_log_converge_tb3(open_again: OpenAgain) -> None:
    """B28: each has its own pump, and its own partitions."""
    with running(open_again(), 0) as one, running(open_again(), 0) as other:
        published = one.publish(opened("ann", 99), partition=0)

        other.wait_applied(0, published.receipt.offset, PATIENCE_S)

        assert state_of(one) == state_of(other) == {"ann": 99}


def test_two_views_split_the_partitions_tb10(open_again: OpenAgain) -> None:
    log = open_again()
    log.append("accounts", opened("ann", 1), partition=0)
    log.append("accounts", opened("bob", 2), partition=1)

    with running(open_again(), 0) as one, running(open_again(), 1) as other:
        assert set(one.assigned()).isdisjoint(other.assigned())
        assert state_of(one, 0) == {"ann": 1}
        assert state_of(other, 1) == {"bob": 2}
        assert state_of(one, 1) is None
        assert state_of(other, 0) is None


def test_a_partition_that_comes_back_applies_nothing_twice_tb11(log: Log) -> None:
    with running(log, 0) as view:
        view.publish(opened("ann", 10), partition=0)
        view.publish(moved("ann", 5), partition=0)

        view.reconcile([])
        view.reconcile([0])
        view.wait_ready(PATIENCE_S)

        assert state_of(view) == {"ann": 15}


def test_a_replay_after_reassignment_is_not_answered_from_wb2(log: Log) -> None:
    """WB2: what was opened, closed and forgotten must not rise again while it is replayed."""
    for event in (opened("ann", 10), sl.Event("closed", 0, key="ann")):
        log.append("accounts", event, partition=0)
    steered = SteeredLog(log)
    seen: list[object] = []

    class Slow(Accounts):
        def apply(self, state: State, record: sl.Record) -> int:
            result = super().apply(state, record)
            if looking.is_set():
                seen.append(on_thread(lambda: view.read(0, dict)).exception(PATIENCE_S))
            return result

    looking = threading.Event()
    with running(steered.as_log(), 0, view=Slow()) as view:
        assert state_of(view) == {}

        looking.set()
        view.reconcile([])
        view.reconcile([0])
        view.wait_ready(PATIENCE_S)

        assert [type(each) for each in seen] == [sl.NotReadyError] * 2
        assert state_of(view) == {}


def test_unknown_high_water_marks_mean_not_ready_and_a_reconcile_heals_tb12(log: Log) -> None:
    log.append("accounts", opened("ann", 99), partition=0)
    steered = SteeredLog(log)
    steered.marks_fail = True
    with sl.LiveView(steered.as_log(), "accounts", Accounts(), clock=FakeClock()) as view:
        view.reconcile([0])
        view.wait_applied(0, 0, PATIENCE_S)
        assert view.assigned() == [0]
        with pytest.raises(sl.NotReadyError) as caught:
            view.read(0, dict)
        assert caught.value.partition == 0
        assert view.health().partitions[0].target is None

        steered.marks_fail = False
        view.reconcile([0])

        assert state_of(view) == {"ann": 99}


@pytest.mark.slow
def test_unknown_high_water_marks_heal_by_themselves(log: Log) -> None:
    log.append("accounts", opened("ann", 99), partition=0)
    steered = SteeredLog(log)
    steered.marks_fail = True
    with sl.LiveView(steered.as_log(), "accounts", Accounts()) as view:
        view.reconcile([0])
        view.wait_applied(0, 0, PATIENCE_S)
        assert not view.is_ready(0)

        steered.marks_fail = False
        view.wait_ready(PATIENCE_S)

        assert state_of(view) == {"ann": 99}


def test_every_answer_of_an_assigned_partition_goes_through_the_gate_wb6(log: Log) -> None:
    """WB6: there is one way to a state."""
    log.append("accounts", opened("ann", 5), partition=0)
    steered = SteeredLog(log)
    gate = gated(steered)
    with sl.LiveView(steered.as_log(), "accounts", Accounts()) as view:
        view.reconcile([0])
        for query in (dict, list, len, lambda state: state.get("ann")):
            with pytest.raises(sl.NotReadyError):
                view.read(0, query)
        assert not view.is_ready(0)
        gate.set()


def test_lag_is_seen_and_a_read_may_ask_for_more_wb9(log: Log) -> None:
    """WB9: ready once does not mean up to date for ever."""
    steered = SteeredLog(log)
    with running(steered.as_log(), 0) as view:
        gate = gated(steered)
        for amount in range(3):
            log.append("accounts", moved("ann", amount), partition=0)

        assert state_of(view) == {}
        assert view.lag() == {0: 3}
        with pytest.raises(sl.NotReadyError):
            view.read(0, dict, min_offset=2)

        gate.set()
        catch_up(view, log)
        assert view.read(0, dict, min_offset=2) == {"ann": 3}
        assert view.lag() == {0: 0}
        assert view.health().is_healthy


class BrokenLog(Log):
    """Its reads fail with what is no error of a log."""

    def read(self, *args: Any, **options: Any) -> Iterator[sl.Record]:
        """Fail."""
        raise ZeroDivisionError(args, options)


def test_a_pump_that_ends_is_raised_by_every_query_wb5() -> None:
    """WB5: no reads from a state that grows ever older."""
    log = BrokenLog(MemoryStore())
    log.create_topic("accounts", partitions=2)

    with running(log, 0) as view:
        log.append("accounts", opened("ann"), partition=0)
        with pytest.raises(sl.ClosedError) as caught:
            view.wait_applied(0, 0, PATIENCE_S)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        with pytest.raises(sl.ClosedError):
            view.read(0, dict)
        with pytest.raises(sl.ClosedError):
            view.publish(opened("bob"), partition=0)
        with pytest.raises(sl.ClosedError):
            view.reconcile([0, 1])
        assert not view.health().is_running
        assert isinstance(view.health().cause, ZeroDivisionError)
        assert view.health().partitions[0].readiness is Readiness.STOPPED


def test_closing_the_log_is_raised_by_every_query(log: Log) -> None:
    with running(log, 0) as view:
        view.publish(opened("ann", 5), partition=0)
        log.close()

        with pytest.raises(sl.ClosedError):
            view.wait_applied(0, 1, PATIENCE_S)
        with pytest.raises(sl.ClosedError):
            view.read(0, dict)


def test_a_closed_view_answers_from_what_it_applied_and_waits_for_nothing(log: Log) -> None:
    with running(log, 0) as view:
        view.publish(opened("ann", 5), partition=0)
        view.close()
        view.close()
        log.append("accounts", moved("ann", 1), partition=0)

        assert state_of(view) == {"ann": 5}
        view.wait_applied(0, 0, PATIENCE_S)
        with pytest.raises(sl.ClosedError):
            view.wait_applied(0, 1, PATIENCE_S)
        with pytest.raises(sl.ClosedError):
            view.reconcile([0, 1])


def test_waiting_for_what_is_given_up_ends(log: Log) -> None:
    with running(log, 0) as view:
        waiting = on_thread(lambda: view.wait_applied(0, 0))

        view.reconcile([])

        with pytest.raises((sl.UnavailableError, sl.InvalidError)):
            waiting.result(PATIENCE_S)
        with pytest.raises(sl.InvalidError):
            view.wait_applied(0, 0)


def test_a_wait_that_runs_out_names_the_partition(log: Log) -> None:
    with running(log, 1) as view:
        with pytest.raises(sl.NotReadyError) as caught:
            view.wait_applied(1, 0, timeout_s=0)

        assert caught.value.partition == 1


def test_a_slow_apply_holds_up_no_reader_of_another_partition(log: Log) -> None:
    entered, leave = threading.Event(), threading.Event()

    class Stuck(Accounts):
        def apply(self, state: State, record: sl.Record) -> int:
            if record.partition == 1:
                entered.set()
                assert leave.wait(PATIENCE_S)
            return super().apply(state, record)

    log.append("accounts", opened("ann", 5), partition=0)
    with running(log, 0, 1, view=Stuck()) as view:
        log.append("accounts", opened("bob", 5), partition=1)
        assert entered.wait(PATIENCE_S)

        assert state_of(view, 0) == {"ann": 5}
        assert view.health().partitions[0].readiness is Readiness.READY
        leave.set()
        view.wait_applied(1, 0, PATIENCE_S)


def test_a_reader_waits_for_one_record_and_not_for_a_page(log: Log) -> None:
    entered, step = threading.Event(), threading.Semaphore(0)

    class Stepping(Accounts):
        def apply(self, state: State, record: sl.Record) -> int:
            entered.set()
            assert step.acquire(timeout=PATIENCE_S)
            return super().apply(state, record)

    with running(log, 0, view=Stepping()) as view:
        log.append_many("accounts", [moved("ann", 1)] * 50, partition=0)
        assert entered.wait(PATIENCE_S)
        reading = on_thread(lambda: state_of(view))
        while not wait([reading], timeout=0.05).done:
            # One more record each time the reader has had its chance to get in.
            step.release()

        assert reading.result()["ann"] < 50
        step.release(100)


def test_a_query_may_query_its_view_again(log: Log) -> None:
    with running(log, 0) as view:
        view.publish(opened("ann", 5), partition=0)

        assert view.read(0, lambda state: view.read(0, len)) == 1


def test_a_view_is_not_closed_inside_its_own_query(log: Log) -> None:
    with running(log, 0, 1) as view:
        view.publish(opened("ann", 5), partition=0)

        with pytest.raises(sl.InvalidError, match="after its query"):
            view.read(0, lambda state: view.close())

        view.publish(opened("eve", 6), partition=0)
        assert state_of(view) == {"ann": 5, "eve": 6}
        view.close()
        assert view.read(0, lambda state: view.close()) is None


def test_a_view_that_is_dropped_ends_its_thread(log: Log) -> None:
    before = set(threading.enumerate())
    view = sl.LiveView(log, "accounts", Accounts())
    view.reconcile([0])
    view.wait_ready(PATIENCE_S)
    (pump,) = {each for each in threading.enumerate() if each.name.startswith("view ")} - before
    gone = weakref.ref(view)

    del view
    wait_collected(lambda: gone() is None)
    pump.join(PATIENCE_S)

    assert not pump.is_alive()


def test_no_thread_runs_until_something_is_assigned(log: Log) -> None:
    before = set(threading.enumerate())
    with sl.LiveView(log, "accounts", Accounts()) as view:
        assert view.health().is_running
        assert set(threading.enumerate()) == before


def test_the_child_of_a_fork_has_to_open_again(log: Log) -> None:
    with running(log, 0) as view:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                view.read(0, dict)
            except sl.ClosedError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert state_of(view) == {}


def test_trimmed_records_are_folded_from_the_oldest_kept(log: Log) -> None:
    for amount in range(1, 6):
        log.append("accounts", moved("ann", amount), partition=0)
    log.trim("accounts", 0, 3)

    with running(log, 0) as view:
        assert state_of(view) == folded(log, 0) == {"ann": 9}
        assert view.health().partitions[0].first == 3
        assert (view.applied(0), view.lag()) == (4, {0: 0})


def test_an_emptied_partition_is_ready(log: Log) -> None:
    log.append("accounts", moved("ann", 1), partition=0)
    log.trim("accounts", 0, 1)

    with running(log, 0) as view:
        assert state_of(view) == {}


def test_a_view_that_a_trim_overtakes_folds_what_is_kept(log: Log) -> None:
    steered = SteeredLog(log)
    with running(steered.as_log(), 0) as view:
        gate = gated(steered)
        for amount in range(1, 6):
            log.append("accounts", moved("ann", amount), partition=0)
        log.trim("accounts", 0, 3)
        gate.set()

        view.wait_applied(0, 4, PATIENCE_S)

        assert state_of(view) == {"ann": 9}


def test_a_dropped_topic_stops_its_partitions(log: Log) -> None:
    with running(log, 0) as view:
        log.drop_topic("accounts")

        with pytest.raises(sl.StoppedError):
            view.wait_applied(0, 0, PATIENCE_S)
        with pytest.raises(sl.StoppedError):
            view.read(0, dict)


def test_settings_that_make_no_sense_are_refused(log: Log) -> None:
    class Bare(sl.View[State]):
        def initial(self, partition: int) -> State:  # noqa: ARG002 - Not every view needs it.
            return {}

        def apply(self, state: State, record: sl.Record) -> None:
            pass

    for settings in ({"poison": "ignore"}, {"snapshot_interval_s": 0}, {"snapshot": "x"}):
        with pytest.raises(sl.InvalidError):
            sl.LiveView(log, "accounts", Bare(), **settings)
