"""Rounds of measurements in turn, and their results."""

from pathlib import Path

import pytest

from benchmarks.entry import Contender, Entry
from benchmarks.measure import measure

CONTENDERS = {"ours": 4.0, "raw": 2.0, "other": 8.0}


def test_the_first_round_warms_up_and_the_median_of_the_others_counts(tmp_path: Path) -> None:
    entry = Entry(
        name="a.b",
        unit="events/s",
        contenders=lambda scratch: {
            "ours": figures(999, 10, 90, 20),
            "raw": figures(999, 5, 4, 1),
        },
        bars={"raw": 5},
    )

    result = measure(entry, tmp_path, unseen, alone)

    assert (result.ours, result.beside, result.rounds) == (20, {"raw": 4}, 3)
    assert (result.ratios, result.bars, result.holds) == ({"raw": 5}, {"raw": 5}, True)
    assert result.spread == {"ours": 4, "raw": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "ratio"), [("events/s", 0.5), ("µs", 2)])
def test_the_unit_says_which_way_is_better(tmp_path: Path, unit: str, ratio: float) -> None:
    entry = Entry(
        name="a.b",
        unit=unit,
        contenders=lambda scratch: {"ours": lambda: 5, "raw": lambda: 10},
        bars={"raw": 1},
    )

    result = measure(entry, tmp_path, unseen, alone)

    assert result.ratios == {"raw": ratio}
    assert result.holds == (ratio >= 1)


@pytest.mark.slow
def test_one_bar_that_falls_short_is_enough(tmp_path: Path) -> None:
    entry = Entry(
        name="a.b",
        unit="events/s",
        contenders=lambda scratch: {name: figures(*[f] * 4) for name, f in CONTENDERS.items()},
        bars={"raw": 1.9, "other": 0.6},
    )

    assert not measure(entry, tmp_path, unseen, alone).holds


@pytest.mark.parametrize(
    ("shares", "holds"), [((0.0, 0.9, 0.1, 0.2), True), ((0.3, 0.0, 0.3, 0.9), None)]
)
def test_no_bar_holds_or_falls_short_while_others_keep_the_machine_busy(
    tmp_path: Path, shares: tuple[float, ...], holds: bool | None
) -> None:
    entry = Entry(
        name="a.b",
        unit="s",
        contenders=lambda scratch: {"ours": lambda: 1.0, "raw": lambda: 1.0},
        bars={"raw": 1},
    )

    result = measure(entry, tmp_path, unseen, iter(shares).__next__)

    assert result.holds is holds


@pytest.mark.slow
def test_contenders_take_turns_and_another_goes_first_each_time(tmp_path: Path) -> None:
    order: list[str] = []
    entry = Entry(
        name="a.b",
        unit="s",
        contenders=lambda scratch: {name: noting(order, name) for name in CONTENDERS},
    )

    measure(entry, tmp_path, unseen, alone)

    rounds = [order[start : start + 3] for start in range(0, 12, 3)]
    assert rounds == [
        ["ours", "raw", "other"],
        ["raw", "other", "ours"],
        ["other", "ours", "raw"],
        ["ours", "raw", "other"],
    ]


@pytest.mark.slow
def test_the_scratch_folder_is_empty_before_and_gone_after(tmp_path: Path) -> None:
    seen: list[Path] = []

    def contenders(scratch: Path) -> dict[str, Contender]:
        assert not list(scratch.iterdir())
        (scratch / "left behind").write_text("x")
        seen.append(scratch)
        return {"ours": lambda: 1.0}

    measure(Entry(name="a.b", unit="s", contenders=contenders), tmp_path, unseen, alone)

    assert seen
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "best", "ratio"), [("events/s", 8, 0.5), ("µs", 2, 0.5)])
def test_the_best_peer_is_the_best_of_three(
    tmp_path: Path, unit: str, best: float, ratio: float
) -> None:
    peers = {"ours": 4.0, "raw": 1.0, "rocksdb": 3.0, "lmdb": 2.0, "sqlite": 8.0, "other": 99.0}
    entry = Entry(
        name="a.b",
        unit=unit,
        contenders=lambda scratch: {name: figures(*[f] * 4) for name, f in peers.items()},
        bars={"best_peer": 0.6},
    )

    result = measure(entry, tmp_path, unseen, alone)

    assert result.beside["best_peer"] == best
    assert (result.ratios["best_peer"], result.holds) == (ratio, False)


def test_a_bar_for_no_measurement_is_refused(tmp_path: Path) -> None:
    entry = Entry(
        name="a.b", unit="s", contenders=lambda scratch: {"ours": lambda: 1.0}, bars={"raw": 1}
    )

    with pytest.raises(AssertionError):
        measure(entry, tmp_path, unseen, alone)


@pytest.mark.slow
def test_progress_names_the_entry_and_the_contender(tmp_path: Path) -> None:
    lines: list[str] = []
    entry = Entry(name="a.b", unit="s", contenders=lambda scratch: {"ours": lambda: 1.0})

    measure(entry, tmp_path, lines.append, alone)

    assert lines[-1] == "a.b  round 3 of 3  ours"


def unseen(line: str) -> None:
    pass


def alone() -> float:
    return 0.0


def figures(*values: float) -> Contender:
    return iter(values).__next__


def noting(order: list[str], name: str) -> Contender:
    def contender() -> float:
        order.append(name)
        return 1.0

    return contender
