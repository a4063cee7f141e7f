"""Offsets as runs."""

from strandline.subscriptions.runs import OffsetRuns


def test_runs_join_and_are_cut() -> None:
    runs = OffsetRuns([(5, 7), (1, 3), (9, 10)])
    runs.add(3, 5)
    assert ([*runs], runs.count, runs.end_of(6), runs.end_of(7)) == ([(1, 7), (9, 10)], 7, 7, None)
    runs.drop_before(2)
    runs.add(0, 20)
    runs.drop_before(19)

    assert ([*runs], runs.count, 19 in runs, 20 in runs) == ([(19, 20)], 1, True, False)


def test_runs_that_are_dropped_are_gone() -> None:
    runs = OffsetRuns([(1, 3), (5, 7), (9, 10)])

    runs.drop_before(6)
    runs.drop_before(6)

    assert ([*runs], runs.count, 2 in runs, 5 in runs) == ([(6, 7), (9, 10)], 2, False, False)
    runs.drop_before(10)
    assert (bool(runs), runs.count) == (False, 0)
