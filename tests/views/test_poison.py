"""Records that cannot be applied: stop there, or set them aside; never skip in silence."""

import asyncio
from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log
from strandline.views import Readiness
from tests.logs import OpenAgain
from tests.views.accounts import (
    PATIENCE_S,
    Accounts,
    State,
    catch_up,
    folded,
    moved,
    opened,
    running,
    state_of,
)


def poison(name: str = "ann") -> sl.Event:
    return sl.Event("poison", 1, key=name)


class Fixed(Accounts):
    """A later release, of the same version, that can handle what was poison."""

    @property
    def name(self) -> str:
        return "Accounts"

    def apply(self, state: State, record: sl.Record) -> int:
        if record.kind == "poison":
            return 0
        return super().apply(state, record)


class Newer(Fixed):
    version = 2


def test_a_poison_record_stops_its_partition_and_no_other_wb7(log: Log) -> None:
    with running(log, 0, 1) as view:
        view.publish(opened("ann", 5), partition=0)
        with pytest.raises(sl.StoppedError) as caught:
            view.publish(poison(), partition=0)
        assert (caught.value.partition, caught.value.offset) == (0, 1)
        assert isinstance(caught.value.cause, ValueError)

        with pytest.raises(sl.StoppedError):
            view.read(0, dict)
        with pytest.raises(sl.StoppedError):
            view.wait_applied(0, 2, PATIENCE_S)
        with pytest.raises(sl.StoppedError):
            view.publish(moved("ann", 1), partition=0)
        assert log.marks("accounts", 0).high == 2, "the last write failed before it was stored"

        assert view.publish(opened("bob", 1), partition=1).outcome == 1
        assert state_of(view, 1) == {"bob": 1}
        health = view.health()
        assert health.partitions[0].readiness is Readiness.STOPPED
        assert isinstance(health.partitions[0].fault, sl.StoppedError)
        assert health.partitions[1].readiness is Readiness.READY
        assert not health.is_healthy


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("poison", ["stop", "quarantine"])
def test_an_apply_that_exits_is_poison_as_any_other_error(
    poison: str, error: BaseException, log: Log
) -> None:
    class Exiting(Accounts):
        def apply(self, state: State, record: sl.Record) -> int:
            if record.kind == "poison":
                raise error
            return super().apply(state, record)

    with running(log, 0, 1, view=Exiting(), poison=poison) as view:
        view.publish(opened("ann", 5), partition=0)

        with pytest.raises(sl.StrandlineError):
            view.publish(sl.Event("poison", 1, key="ann"), partition=0)

        assert view.publish(opened("bob", 1), partition=1).outcome == 1
        stopped = Readiness.STOPPED if poison == "stop" else Readiness.READY
        assert view.health().partitions[0].readiness is stopped


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_initial_that_exits_stops_its_partition_and_no_other(
    error: BaseException, log: Log
) -> None:
    class Exiting(Accounts):
        def initial(self, partition: int) -> State:
            if partition == 0:
                raise error
            return super().initial(partition)

    with sl.LiveView(log, "accounts", Exiting()) as view:
        view.reconcile([0, 1])

        with pytest.raises(sl.StoppedError):
            view.wait_applied(0, 0, PATIENCE_S)
        assert view.publish(opened("bob", 1), partition=1).outcome == 1


def test_nothing_past_a_poison_record_is_snapshotted_wb7(log: Log, tmp_path: Path) -> None:
    """WB7: a later version that can read the record still meets it."""
    snapshot = tmp_path / "accounts.snapshot"
    with running(log, 0, 1, snapshot=snapshot) as view:
        view.publish(opened("ann", 4), partition=0)
        view.save()
        view.publish(moved("ann", 1), partition=0)
        with pytest.raises(sl.StoppedError):
            view.publish(poison(), partition=0)
        log.append("accounts", moved("ann", 1), partition=0)
        view.publish(opened("bob", 1), partition=1)
        view.save()
        view.close()
        assert (view.committed(0), view.committed(1)) == (0, 0)

    with running(log, 0, 1, view=Fixed(), snapshot=snapshot) as view:
        assert view.committed(0) == 0
        assert state_of(view) == {"ann": 6}


def test_a_stopped_partition_starts_again_when_it_is_assigned_again(log: Log) -> None:
    class Healing(Accounts):
        is_healthy = False

        def apply(self, state: State, record: sl.Record) -> int:
            if not self.is_healthy and record.payload == 13:
                raise OSError("a passing trouble")
            return super().apply(state, record)

    accounts = Healing()
    with running(log, 0, view=accounts) as view:
        with pytest.raises(sl.StoppedError):
            view.publish(opened("ann", 13), partition=0)

        accounts.is_healthy = True
        view.reconcile([0])
        with pytest.raises(sl.StoppedError):
            view.read(0, dict)
        view.reconcile([])
        view.reconcile([0])
        view.wait_ready(PATIENCE_S)
        assert state_of(view) == {"ann": 13}


def test_a_quarantined_record_leaves_no_trace_and_is_listed_wb7(log: Log) -> None:
    """WB7: with offset and reason; half of a failed change does not stay."""
    with running(log, 0, poison="quarantine") as view:
        view.publish(opened("ann", 5), partition=0)
        with pytest.raises(sl.RefusedError) as caught:
            view.publish(poison(), partition=0)
        assert "no such kind of movement" in str(caught.value)
        view.publish(moved("ann", 1), partition=0)

        assert state_of(view) == folded(log, 0) == {"ann": 6}
        health = view.health()
        assert list(health.partitions[0].quarantined) == [1]
        assert "ValueError" in health.partitions[0].quarantined[1]
        assert not health.is_healthy


def test_several_poison_records_are_each_set_aside(log: Log) -> None:
    for event in (opened("ann", 5), poison(), poison("bob"), moved("ann", 1), poison()):
        log.append("accounts", event, partition=0)

    with running(log, 0, poison="quarantine") as view:
        assert state_of(view) == {"ann": 6}
        assert sorted(view.health().partitions[0].quarantined) == [1, 2, 4]


def test_the_quarantine_is_kept_with_the_snapshot(open_again: OpenAgain, tmp_path: Path) -> None:
    snapshot = tmp_path / "accounts.snapshot"
    with running(open_again(), 0, poison="quarantine", snapshot=snapshot) as view:
        for event in (opened("ann", 5), poison(), moved("ann", 1)):
            open_again().append("accounts", event, partition=0)
        catch_up(view, open_again())
        view.close()

    with running(open_again(), 0, poison="quarantine", snapshot=snapshot) as view:
        assert view.committed(0) == 2
        assert list(view.health().partitions[0].quarantined) == [1]
        assert state_of(view) == {"ann": 6}


def test_a_quarantine_goes_back_no_further_than_the_snapshot(log: Log, tmp_path: Path) -> None:
    """What was trimmed meanwhile is in the snapshot alone, and must not be lost."""
    snapshot = tmp_path / "accounts.snapshot"
    log.append("accounts", moved("bob", 1), partition=0)
    log.trim("accounts", 0, 1)
    with running(log, 0, poison="quarantine", snapshot=snapshot) as view:
        view.publish(opened("ann", 5), partition=0)
        view.save()
        log.trim("accounts", 0, 2)

        log.append("accounts", poison(), partition=0)
        view.publish(moved("ann", 1), partition=0)

        assert state_of(view) == {"ann": 6}
        assert view.committed(0) == 1


def test_a_new_version_meets_what_was_quarantined_wb7(log: Log, tmp_path: Path) -> None:
    snapshot = tmp_path / "accounts.snapshot"
    with running(log, 0, poison="quarantine", snapshot=snapshot) as view:
        log.append("accounts", poison(), partition=0)
        catch_up(view, log)
        view.close()

    with running(log, 0, view=Newer(), poison="quarantine", snapshot=snapshot) as view:
        assert not view.health().partitions[0].quarantined


def test_a_rebuild_tries_again_what_was_stopped_at_or_set_aside(log: Log) -> None:
    class Healing(Accounts):
        is_healthy = False

        def apply(self, state: State, record: sl.Record) -> int:
            if self.is_healthy and record.kind == "poison":
                return 0
            return super().apply(state, record)

    for policy in ("stop", "quarantine"):
        accounts = Healing()
        with running(log, 1, view=accounts, poison=policy) as view:
            log.append("accounts", poison(), partition=1)
            log.append("accounts", moved("ann", 1), partition=1)
            if policy == "quarantine":
                catch_up(view, log)
            else:
                with pytest.raises(sl.StoppedError):
                    catch_up(view, log)

            accounts.is_healthy = True
            view.rebuild()
            view.wait_ready(PATIENCE_S)

            assert view.health().is_healthy
            assert state_of(view, 1) == {"ann": 1 if policy == "stop" else 2}


def test_running_out_of_memory_is_not_charged_to_a_record(log: Log) -> None:
    class Greedy(Accounts):
        def apply(self, state: State, record: sl.Record) -> int:
            raise MemoryError(record.offset, len(state))

    with running(log, 0, view=Greedy(), poison="quarantine") as view:
        log.append("accounts", opened("ann"), partition=0)

        with pytest.raises(sl.StoppedError):
            view.wait_applied(0, 0, PATIENCE_S)


def test_an_initial_state_that_fails_stops_its_partition(log: Log) -> None:
    class Unready(Accounts):
        def initial(self, partition: int) -> State:
            if partition == 0:
                raise LookupError("no such place")
            return {}

    with sl.LiveView(log, "accounts", Unready()) as view:
        view.reconcile([0, 1])
        with pytest.raises(sl.StoppedError):
            view.wait_ready(PATIENCE_S)
        view.wait_applied(1, -1, PATIENCE_S)
