"""How many records are taken before their turn."""

from strandline.testing import FakeClock
from strandline.triggers.pace import AHEAD_MAX, AHEAD_S, Pace


def paced(clock: FakeClock, pace: Pace, each_s: float, lists: int) -> int:
    """Take lists whose records take so long each; return how many the next one would have."""
    ended = 0
    for _ in range(lists):
        ended += pace.ahead
        clock.advance(each_s * pace.ahead)
        pace.note_taken(ended)
    return pace.ahead


def test_slow_functions_have_a_record_at_a_time() -> None:
    clock = FakeClock()

    assert paced(clock, Pace(clock), 1.0, 20) == 1


def test_quick_ones_have_as_many_as_end_in_a_moment_after_some_lists() -> None:
    clock = FakeClock()
    pace = Pace(clock)

    grown = [paced(clock, pace, 0.0001, 1) for _ in range(3)]

    assert grown == [2, 4, 8]
    assert paced(clock, Pace(clock), 0.0001, 20) == AHEAD_MAX
    assert paced(clock, Pace(clock), 0.001, 20) in {int(AHEAD_S / 0.001), int(AHEAD_S / 0.001) - 1}


def test_a_function_that_becomes_slow_has_few_at_once() -> None:
    clock = FakeClock()
    pace = Pace(clock)
    assert paced(clock, pace, 0.0, 20) == AHEAD_MAX

    pace.note_taken(1_000_000)
    clock.advance(1.0)
    pace.note_taken(1_000_001)

    assert pace.ahead == 1
