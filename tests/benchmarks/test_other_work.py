"""How much of the machine other programs take."""

import time
from pathlib import Path

import pytest

from benchmarks.other_work import share_of_others


@pytest.mark.parametrize(
    ("passed", "share"),
    [
        ("0 0 0 20 0 0 0 0", 0.0),
        ("0 0 0 10 10 0 0 0", 0.0),
        ("5 0 5 10 0 0 0 0", 0.5),
        ("0 5 0 15 0 0 0 0", 0.25),
        ("0 0 0 5 0 5 5 5", 0.75),
        ("0 0 0 0 0 0 0 0", 0.0),
    ],
    ids=["idle", "waits for a disk", "programs", "nice", "interrupts and hosts", "no tick"],
)
def test_the_share_is_what_was_neither_idle_nor_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: str, share: float
) -> None:
    stat = tmp_path / "stat"
    stat.write_text(counted([100] * 8))
    later = [100 + int(ticks) for ticks in passed.split()]
    monkeypatch.setattr(time, "sleep", lambda pause_s: stat.write_text(counted(later)))

    assert share_of_others(stat) == pytest.approx(share)


def test_where_the_system_does_not_say_it_is_nothing(tmp_path: Path) -> None:
    assert share_of_others(tmp_path / "stat") == 0


def counted(ticks: list[int]) -> str:
    return f"cpu  {' '.join(map(str, ticks))} 7 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
