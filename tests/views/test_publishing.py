"""Writes through a view: visible when they return, and every outcome is reported."""

import asyncio
import threading

import pytest

import strandline as sl
from strandline.log import Log
from strandline.testing import FakeClock
from strandline.views import REFUSALS_KEPT
from tests.logs import OpenAgain
from tests.threads import on_thread
from tests.views.accounts import (
    PATIENCE_S,
    Accounts,
    State,
    SteeredLog,
    folded,
    moved,
    opened,
    running,
    state_of,
)


def test_what_publish_returned_for_is_visible_tb1(log: Log) -> None:
    with running(log, 0, 1) as view:
        first = view.publish(opened("ann", 40))
        second = view.publish(moved("ann", 2))

        partition = view.partition_of("ann")
        assert (first.outcome, second.outcome) == (40, 42)
        assert second.receipt.partition == partition
        assert view.read(partition, lambda state: state.get("ann")) == 42
        assert view.applied(partition) == second.receipt.offset


def test_what_check_refuses_is_never_appended_tb2(log: Log) -> None:
    with running(log, 0, 1) as view:
        with pytest.raises(sl.RefusedError):
            view.publish(sl.Event("unheard of", 1, key="ann"))

        assert [log.marks("accounts", p).high for p in (0, 1)] == [0, 0]


def test_a_write_to_a_partition_that_is_not_assigned_fails_at_once_wb3(log: Log) -> None:
    """WB3: also after the end, and nothing is stored."""
    with running(log, 0) as view:
        with pytest.raises(sl.InvalidError):
            view.publish(opened("ann"), partition=1)
        assert log.marks("accounts", 1).high == 0

        view.close()
        with pytest.raises(sl.ClosedError):
            view.publish(opened("ann"), partition=0)
        assert log.marks("accounts", 0).high == 0


def test_a_write_that_is_not_applied_in_time_says_where_it_is_wb3(log: Log) -> None:
    """WB3: no wait is for ever."""
    steered = SteeredLog(log)
    clock = FakeClock()
    with running(steered.as_log(), 0, clock=clock) as view:
        gate = threading.Event()
        steered.before_read = lambda partition, start: (gate.wait(PATIENCE_S), None)[1]
        writing = on_thread(lambda: view.publish(opened("ann", 7), partition=0, timeout_s=5.0))
        clock.wait_for_waiters(1)
        while not writing.done():
            clock.advance(1.0)

        with pytest.raises(sl.UnavailableError) as caught:
            writing.result()
        assert caught.value.fields["partition"] == 0
        assert caught.value.fields["offset"] == 0
        assert caught.value.write is None, "it was taken"
        gate.set()
        view.wait_applied(0, 0, PATIENCE_S)
        assert state_of(view) == {"ann": 7}


def test_a_write_whose_partition_is_given_up_says_where_it_is_wb3(log: Log) -> None:
    steered = SteeredLog(log)
    with running(steered.as_log(), 0) as view:
        gate, entered = threading.Event(), threading.Event()

        def hold(partition: int, start: int) -> None:
            entered.set()
            gate.wait(PATIENCE_S)

        steered.before_read = hold
        writing = on_thread(lambda: view.publish(opened("ann", 7), partition=0))
        assert entered.wait(PATIENCE_S)

        view.reconcile([])

        with pytest.raises(sl.UnavailableError) as caught:
            writing.result(PATIENCE_S)
        assert caught.value.fields["offset"] == 0
        gate.set()


def test_a_refused_write_raises_in_its_caller_wb4(log: Log) -> None:
    """WB4: the record is in the log, and every view passes it over."""
    with running(log, 0) as view:
        view.publish(opened("ann", 10), partition=0)

        with pytest.raises(sl.RefusedError) as caught:
            view.publish(moved("ann", -11), partition=0)

        assert caught.value.fields["offset"] == 1
        assert "would owe" in str(caught.value)
        assert isinstance(caught.value.__cause__, sl.RefusedError)
        assert state_of(view) == folded(log, 0) == {"ann": 10}
        assert view.applied(0) == 1
        assert view.publish(moved("ann", -10), partition=0).outcome == 0


def test_each_of_many_callers_gets_its_own_outcome_wb4(open_again: OpenAgain) -> None:
    with running(open_again(), 0) as view:

        def withdraw() -> list[object]:
            found: list[object] = []
            for _ in range(20):
                try:
                    published = view.publish(moved("ann", -1), partition=0)
                    found.append((published.receipt.offset, published.outcome))
                except sl.RefusedError as refusal:
                    found.append(refusal)
            return found

        view.publish(opened("ann", 30), partition=0)
        callers = [on_thread(withdraw) for _ in range(4)]
        found = [outcome for caller in callers for outcome in caller.result(PATIENCE_S)]

        taken = sorted(outcome for outcome in found if isinstance(outcome, tuple))
        assert [left for _, left in taken] == list(range(29, -1, -1))
        assert len(found) - len(taken) == 50
        assert state_of(view) == {"ann": 0}


def test_the_repeat_of_a_refused_write_is_refused_also_after_a_restart(
    open_again: OpenAgain, tmp_path: object
) -> None:
    snapshot = f"{tmp_path}/accounts.snapshot"
    with running(open_again(), 0, snapshot=snapshot) as view:
        for _ in range(2):
            with pytest.raises(sl.RefusedError):
                view.publish(moved("ann", -1), partition=0, idempotency_key="once")
        view.publish(opened("bob", 1), partition=0, idempotency_key="good")
        view.save()

    with running(open_again(), 0, snapshot=snapshot) as view:
        with pytest.raises(sl.RefusedError):
            view.publish(moved("ann", -1), partition=0, idempotency_key="once")
        repeat = view.publish(opened("bob", 1), partition=0, idempotency_key="good")

        assert (repeat.receipt.is_repeat, repeat.outcome) == (True, None)
        assert view.lag() == {0: 0}


def test_refusals_are_kept_up_to_a_bound(log: Log) -> None:
    with running(log, 0) as view:
        with pytest.raises(sl.RefusedError):
            view.publish(moved("ann", -1), partition=0, idempotency_key="first")
        log.append_many("accounts", [moved("ann", -1)] * REFUSALS_KEPT, partition=0)
        last = log.marks("accounts", 0).high - 1
        view.wait_applied(0, last, PATIENCE_S)

        repeat = view.publish(moved("ann", -1), partition=0, idempotency_key="first")

        assert repeat.receipt.is_repeat


def test_a_record_that_could_go_anywhere_goes_where_it_is_seen(log: Log) -> None:
    log.create_topic("counted", partitions=3)

    class Count(sl.View[State]):
        def initial(self, partition: int) -> State:  # noqa: ARG002 - Not every view needs it.
            return {"count": 0}

        def apply(self, state: State, record: sl.Record) -> None:
            state["count"] += 1 if record.kind == "counted" else 0

    with sl.LiveView(log, "counted", Count()) as view:
        view.reconcile([1, 2])
        for _ in range(6):
            view.publish(sl.Event("counted", None), timeout_s=PATIENCE_S)

        assert [view.read(p, dict) for p in range(3)] == [None, {"count": 3}, {"count": 3}]


def test_writes_work_from_an_event_loop(open_again: OpenAgain) -> None:
    log = open_again()

    async def scenario() -> None:
        async with sl.LiveView(log, "accounts", Accounts()) as view:
            await view.reconcile([0, 1])
            await view.wait_ready(PATIENCE_S)
            outcomes = [
                published.outcome
                for published in await asyncio.gather(
                    *(view.publish(moved("ann", 1)) for _ in range(10))
                )
            ]
            assert sorted(outcomes) == list(range(1, 11))
            with pytest.raises(sl.RefusedError):
                await view.publish(moved("ann", -100))
            receipt = await log.append("accounts", moved("ann", 5))
            await view.wait_applied(receipt.partition, receipt.offset, PATIENCE_S)
            assert view.read(receipt.partition, lambda state: state["ann"]) == 15
            with pytest.raises(sl.NotReadyError):
                await view.wait_applied(receipt.partition, 1_000, 0.0)
            await view.save()
            await view.rebuild()
            await view.wait_ready(PATIENCE_S)
            assert view.read(receipt.partition, lambda state: state["ann"]) == 15

    asyncio.run(scenario())


def test_a_waiting_loop_runs_its_other_tasks(log: Log) -> None:
    async def scenario() -> list[str]:
        told = []
        async with sl.LiveView(log, "accounts", Accounts()) as view:
            await view.reconcile([0])

            async def wait() -> None:
                await view.wait_applied(0, 0, PATIENCE_S)
                told.append("applied")

            waiting = asyncio.create_task(wait())
            for _ in range(3):
                await asyncio.sleep(0)
                told.append("other")
            await asyncio.to_thread(log.append, "accounts", opened("ann"), partition=0)
            await waiting
        return told

    assert asyncio.run(scenario()) == ["other"] * 3 + ["applied"]


def test_a_cancelled_wait_leaves_the_view_as_it_was(log: Log) -> None:
    async def scenario() -> None:
        async with sl.LiveView(log, "accounts", Accounts()) as view:
            await view.reconcile([0])
            waiting = asyncio.create_task(view.wait_applied(0, 0))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await view.publish(opened("ann", 3), partition=0)).outcome == 3

    asyncio.run(scenario())


def test_a_placeholder_is_not_ready_for_anything_until_the_view_is_there(log: Log) -> None:
    """B32: nothing is taken and then lost during a start."""
    pending = sl.PendingView[State]()
    on_loop = sl.AsyncPendingView(pending)
    calls = [
        lambda: pending.read(1, dict),
        lambda: pending.publish(opened("ann", 1)),
        lambda: pending.wait_applied(1, 0),
        lambda: pending.committed(1),
        lambda: pending.applied(1),
        lambda: pending.is_ready(1),
        lambda: pending.reconcile([1]),
        lambda: pending.partition_of("ann"),
        lambda: asyncio.run(on_loop.publish(opened("ann", 1))),
        lambda: asyncio.run(on_loop.wait_applied(1, 0)),
        lambda: asyncio.run(on_loop.wait_ready()),
        *(pending.assigned, pending.lag, pending.health),
        *(pending.wait_ready, pending.rebuild, pending.save),
    ]
    for call in calls:
        with pytest.raises(sl.NotReadyError) as caught:
            call()
        assert caught.value.partition in (1, -1)
    assert log.marks("accounts", 1).high == 0

    with running(log, 1) as view:
        assert pending.become(view) is None
        pending.publish(opened("ann", 1), partition=1)

        assert pending.read(1, dict) == {"ann": 1}
        assert pending.assigned() == [1]
        with running(log, 1) as other:
            assert pending.become(other) is view
            assert pending.read(1, dict) == {"ann": 1}
