"""Results as text."""

from benchmarks.results import Result
from benchmarks.table import shortfalls, table

RESULTS = [
    Result(
        name="append.single",
        unit="events/s",
        ours=512345.678,
        beside={"raw": 400000.0, "sqlite": 58000.0},
        ratios={"raw": 1.281, "sqlite": 8.833},
        bars={"raw": 1.3},
        holds=False,
        rounds=3,
    ),
    Result(
        name="open.clean", unit="s", ours=0.25, beside={}, ratios={}, bars={}, holds=True, rounds=3
    ),
]


def test_columns_are_aligned_and_each_comparison_has_a_line() -> None:
    assert table(RESULTS).splitlines() == [
        "entry          unit         ours  beside   figure  times better  bar",
        "append.single  events/s  512,346  raw     400,000          1.28  1.3  falls short",
        "append.single  events/s  512,346  sqlite   58,000          8.83",
        "open.clean     s            0.25",
    ]


def test_shortfalls_name_the_bar_and_what_was_reached() -> None:
    assert shortfalls(RESULTS) == ["append.single: 1.281 times raw, the bar is 1.3"]
