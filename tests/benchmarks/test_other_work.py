"""How much of the machine other programs take."""

import os
from pathlib import Path

import pytest

from benchmarks.other_work import share_of_others

OWN, CHILD, GRANDCHILD, STRANGER = os.getpid(), 30, 20, 10


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
    tmp_path: Path, passed: str, share: float
) -> None:
    later = [100 + int(ticks) for ticks in passed.split()]
    count(tmp_path, [100] * 8, {})

    found = share_of_others(tmp_path, lambda pause_s: count(tmp_path, later, {}))

    assert found == pytest.approx(share)


def test_what_this_program_has_started_is_not_among_the_others(tmp_path: Path) -> None:
    begun = {OWN: 7, CHILD: 50, GRANDCHILD: 60, STRANGER: 70}
    ended = {OWN: 8, CHILD: 53, GRANDCHILD: 64, STRANGER: 72}
    count(tmp_path, [100] * 8, begun)

    later = [110, 100, 100, 110, *[100] * 4]
    found = share_of_others(tmp_path, lambda pause_s: count(tmp_path, later, ended))

    assert found == pytest.approx(2 / 20)


def test_where_the_system_does_not_say_it_is_nothing(tmp_path: Path) -> None:
    assert share_of_others(tmp_path) == 0


def count(proc: Path, all_cores: list[int], processes: dict[int, int]) -> None:
    """Write the ticks of the cores, and those of processes, as the kernel shows them."""
    cores = " ".join(map(str, all_cores))
    (proc / "stat").write_text(f"cpu  {cores} 7 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
    parents = {OWN: 1, CHILD: OWN, GRANDCHILD: CHILD, STRANGER: 1}
    for pid, ticks in processes.items():
        (proc / str(pid)).mkdir(exist_ok=True)
        fields = f"S {parents[pid]} 1 1 0 -1 0 0 0 0 0 {ticks - 2} 2 0 0"
        (proc / str(pid) / "stat").write_text(f"{pid} (a) name) {fields}\n")
