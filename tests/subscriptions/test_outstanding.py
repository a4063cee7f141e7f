"""What is outstanding of one partition: floors, runs and counts."""

import pytest

from strandline.log.gaps import Gaps
from strandline.subscriptions.outstanding import RUN_MIN, Attempts, Outstanding
from strandline.values import Offset


@pytest.fixture
def outstanding() -> Outstanding:
    return Outstanding(Offset(5), {})


def test_a_record_is_suspect_however_its_process_ended() -> None:
    assert Attempts(shared=1, alone=1).is_suspect
    assert not Attempts(failed=3).is_suspect


def test_there_is_nothing_to_note_of_a_partition_that_was_only_entered(
    outstanding: Outstanding,
) -> None:
    assert outstanding.is_noted
    outstanding.share()
    outstanding.release()
    outstanding.withdraw([])

    assert outstanding.is_noted
    assert outstanding.worth_keeping() == {}


def test_who_is_joined_is_alone_no_more_and_that_is_to_be_noted(outstanding: Outstanding) -> None:
    outstanding.begin(5, alone=True)
    assert outstanding.is_alone(5)

    outstanding.share()

    assert not outstanding.is_alone(5)
    assert not outstanding.is_noted
    assert outstanding.worth_keeping() == {5: Attempts(shared=1)}


def test_what_is_reserved_is_counted_from_the_next_record_on(outstanding: Outstanding) -> None:
    outstanding.reserve(8)

    assert [each for each in range(10) if outstanding.is_reserved(each)] == [5, 6, 7]
    outstanding.deliver(5)
    assert [each for each in range(10) if outstanding.is_reserved(each)] == [6, 7]


def test_first_deliveries_in_a_row_are_one_run(outstanding: Outstanding) -> None:
    row = range(5, 5 + RUN_MIN)
    outstanding.begin_many([*row, row.stop + 1], alone=False)

    assert outstanding.first_runs() == [(row.start, row.stop)]
    assert outstanding.worth_keeping(outstanding.first_runs()) == {row.stop + 1: Attempts(shared=1)}


def test_what_is_settled_is_neither_begun_nor_taken_on_again(outstanding: Outstanding) -> None:
    for offset in (5, 6, 7):
        outstanding.deliver(offset)
    outstanding.settle([5, 7])

    assert [outstanding.is_settled(each) for each in (4, 5, 6, 7)] == [True, True, False, True]
    for offset in (5, 7):
        outstanding.begin(offset, alone=False)
        outstanding.adopt(offset)
    assert outstanding.in_flight() == 0
    assert len(outstanding) == 2


def test_what_was_kept_beyond_the_floor_counts_until_the_floor_is_past_it(
    outstanding: Outstanding,
) -> None:
    outstanding.resume(Gaps(((7, 9),)), 10)
    assert outstanding.unsettled(10) == 3

    for offset in (5, 6):
        outstanding.deliver(offset)
    outstanding.settle([5, 6])

    assert outstanding.floor == 9
    assert outstanding.unsettled(10) == 1
