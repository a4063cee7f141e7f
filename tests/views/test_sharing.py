"""Several views of one log read a partition once while they are at the same offset."""

import threading

import pytest

import strandline as sl
from strandline.log import Log
from tests.logs import OpenAgain
from tests.views.accounts import (
    PATIENCE_S,
    Accounts,
    State,
    SteeredLog,
    catch_up,
    fill,
    folded,
    moved,
    running,
    state_of,
)


def test_two_views_at_the_same_place_share_a_read(log: Log) -> None:
    steered = SteeredLog(log)
    gate = threading.Event()
    with running(steered.as_log(), 0) as one, running(steered.as_log(), 0) as other:
        fill(log, 1)
        catch_up(one, log)
        catch_up(other, log)
        steered.starts.clear()
        steered.before_read = lambda partition, start: (gate.wait(PATIENCE_S), None)[1]
        for number in range(20):
            log.append("accounts", moved("ann", number), partition=0)
        gate.set()

        catch_up(one, log)
        catch_up(other, log)

        assert len(steered.starts) == len(set(steered.starts)), "each page was read once"
        assert state_of(one) == state_of(other) == folded(log, 0)


def test_a_view_alone_keeps_nothing(log: Log) -> None:
    steered = SteeredLog(log)
    fill(log, 5)
    for _ in range(2):
        with running(steered.as_log(), 0):
            pass

    assert steered.starts == [0, 0]


@pytest.mark.slow
def test_views_that_share_a_read_share_nothing_that_one_could_change(
    open_again: OpenAgain,
) -> None:
    class Spoiling(Accounts):
        """Changes what it is given."""

        def apply(self, state: State, record: sl.Record) -> int:
            record.payload["amount"] += 1_000
            state["sum"] = state.get("sum", 0) + record.payload["amount"]
            return 0

    log = open_again()
    with (
        running(log, 0, view=Spoiling()) as one,
        running(log, 0, view=Spoiling()) as other,
    ):
        for number in range(200):
            log.append("accounts", sl.Event("n", {"amount": number}), partition=0)
        catch_up(one, log)
        catch_up(other, log)

        assert state_of(one) == state_of(other) == {"sum": sum(range(200)) + 200 * 1_000}


@pytest.mark.slow
def test_views_that_come_and_go_while_others_read_miss_nothing(log: Log) -> None:
    with running(log, 0, 1) as steady:
        for _ in range(10):
            fill(log, 50)
            with running(log, 0) as passing:
                catch_up(passing, log)
                assert state_of(passing) == folded(log, 0)
        catch_up(steady, log)

        assert state_of(steady) == folded(log, 0)
