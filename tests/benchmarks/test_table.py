"""Results as text."""

import msgspec

from benchmarks.results import Result
from benchmarks.table import shortfalls, table, too_busy
from tools.this_run import Run

RUN = Run("2026-11-01", "abcd1234")
APPEND = Result(
    name="append",
    unit="/s",
    ours=512345.678,
    beside={"raw": 400000.0, "sqlite": 58000.0, "best_peer": 58000.0},
    ratios={"raw": 1.281, "sqlite": 8.833, "best_peer": 8.833},
    bars={"raw": 1.3},
    holds=False,
    rounds=3,
    spread={"ours": 0.034, "raw": 0.1, "sqlite": 0.2},
    others=0.01,
    run=RUN,
)
OPEN = Result(
    name="open",
    unit="s",
    ours=0.25,
    beside={},
    ratios={},
    bars={},
    holds=True,
    rounds=3,
    spread={"ours": 0.5},
    others=0.01,
    run=RUN,
)
BUSY = msgspec.structs.replace(APPEND, holds=None, others=0.5)


def test_columns_are_aligned_and_each_comparison_has_a_line() -> None:
    assert table([APPEND, OPEN]).splitlines() == [
        "entry   unit     ours  spread  beside      figure  spread  times better  bar",
        "append  /s    512,346      3%  raw        400,000     10%          1.28  1.3  falls short",
        "append  /s    512,346      3%  sqlite      58,000     20%          8.83",
        "append  /s    512,346      3%  best_peer   58,000                  8.83",
        "open    s        0.25     50%",
    ]


def test_a_busy_machine_is_named_in_place_of_a_verdict() -> None:
    assert table([BUSY]).splitlines()[1].endswith("1.3  machine busy")


def test_shortfalls_name_the_bar_and_what_was_reached() -> None:
    assert shortfalls([APPEND, OPEN]) == ["append: 1.281 times raw, the bar is 1.3"]


def test_on_a_busy_machine_a_bar_is_neither_held_nor_missed() -> None:
    assert shortfalls([BUSY]) == []
    assert too_busy([APPEND, BUSY, OPEN]) == ["append"]
