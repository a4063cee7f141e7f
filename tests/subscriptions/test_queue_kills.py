"""Members of a work queue in separate processes, killed at any moment."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import strandline as sl

RECORDS = 80
ROUNDS = 5


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_no_record_is_lost_and_none_acked_twice_whichever_member_is_killed(
    scheme: str, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed={seed}\n")
    chance = random.Random(seed)
    url, notes, no_more = f"{scheme}:{tmp_path / 'log'}", tmp_path / "notes", tmp_path / "no-more"
    with sl.open(url) as log:
        log.create_topic("jobs", partitions=2)
        add_round(log, 0)
    members = [begun(url, notes, no_more) for _ in range(3)]
    try:
        for number in range(1, ROUNDS):
            # A moment of work, cut short at any place.
            with pytest.raises(subprocess.TimeoutExpired):
                members[0].wait(timeout=chance.uniform(0.3, 1.0))
            members[0].kill()
            members.pop(0).wait()
            members.append(begun(url, notes, no_more))
            with sl.open(url) as log:
                add_round(log, number)
        no_more.touch()
        for member in members:
            assert member.wait(timeout=120) == 0
    finally:
        for member in members:
            member.kill()
            member.wait()

    lines = [line.split() for line in notes.read_text().splitlines()]
    begun_of = {int(number) for what, number in lines if what == "begin"}
    acked = Counter(int(number) for what, number in lines if what == "acked")
    assert begun_of == set(range(RECORDS)), "a record was lost"
    assert max(acked.values()) == 1, "a record was acked by two members"
    settled_at = {int(n): at for at, (what, n) in enumerate(lines) if what == "acked"}
    again = [
        n
        for at, (what, n) in enumerate(lines)
        if what == "begin" and at > settled_at.get(int(n), at)
    ]
    assert again == [], "a record that was acked came again"
    with sl.open(url) as log:
        assert [log.cursor("jobs", "workers", number) for number in (0, 1)] == [RECORDS // 2] * 2
        assert log.marks("jobs", 0).high == RECORDS // 2


def add_round(log: sl.Log, number: int) -> None:
    for each in range(number * RECORDS // ROUNDS, (number + 1) * RECORDS // ROUNDS):
        log.append("jobs", sl.Event("job", {"n": each}), partition=each % 2)


def begun(url: str, notes: Path, no_more: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.subscriptions.queue_worker", url, str(notes), str(no_more)],
        cwd=Path(__file__).parents[2],
    )
