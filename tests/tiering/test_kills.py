"""A process that is killed in the middle of tiering loses nothing, and the next goes on."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import strandline as sl
from strandline.tiering import SegmentCatalogue, SegmentState, sweep, tier
from strandline.tiering.segment import partition_of

pytestmark = pytest.mark.slow

PROCESS = Path(__file__).with_name("tier_process.py")
ROOT = PROCESS.parents[2]


def run(url: str, store: str, die_at: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(PROCESS), url, store, str(die_at)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )


def filled(url: str) -> list[sl.Record]:
    with sl.open(url) as log:
        log.create_topic("t", proof=True)
        log.append_many("t", [sl.Event("k", {"n": n}) for n in range(20)])
        return list(log.read("t", 0, 0))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["file", "sqlite"])
def test_a_kill_at_any_point_of_a_run_loses_nothing(backend: str, tmp_path: Path) -> None:
    store = f"file://{tmp_path / 'cold'}"
    whole = f"{backend}:{tmp_path / 'whole'}"
    filled(whole)
    done = run(whole, store, 0)
    assert done.returncode == 0, done.stderr
    points = int(done.stdout)
    assert points >= 24

    for die_at in range(1, points + 1):
        url = f"{backend}:{tmp_path / f'log-{die_at}'}"
        records = filled(url)
        killed = run(url, store, die_at)
        assert killed.returncode == -signal.SIGKILL, killed.stderr

        with sl.open(url) as log:
            assert list(log.read("t", 0, 0)) == records
            tier(log, "t", store, piece_records=9, include_open=True, local_bytes=0)
            sweep(log, store)

            assert log.evict("t", 0, 0) == 20
            assert log.verify("t")[0].is_sound
            assert list(log.read("t", 0, 0)) == records
            place = partition_of(log.topic("t"), 0)
            with SegmentCatalogue(log) as catalogue:
                catalogue.follow_all()
                listed = catalogue.segments(place)
            assert [(each.start, each.end) for each in listed] == [(0, 9), (9, 18), (18, 20)]
            assert {each.state for each in listed} == {SegmentState.COPY_FINISHED}
            folder = tmp_path / "cold" / str(log.id)
            assert len([path for path in folder.rglob("*") if path.is_file()]) == 3


@pytest.mark.parametrize("how", ["0", "worker"])
def test_several_processes_at_once_do_not_harm_each_other(how: str, tmp_path: Path) -> None:
    url, store = f"file:{tmp_path / 'log'}", f"file://{tmp_path / 'cold'}"
    records = filled(url)
    commands = [sys.executable, str(PROCESS), url, store, how]
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

    running = [
        subprocess.Popen(commands, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]
    codes = [process.wait(120) for process in running]

    assert codes == [0, 0, 0]
    with sl.open(url, mode="read") as log:
        assert list(log.read("t", 0, 0)) == records
        assert [(run.start, run.end) for run in log.segments("t", 0)] == [(0, 9), (9, 18), (18, 20)]
        assert log.verify("t")[0].is_sound
