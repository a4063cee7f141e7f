"""A process that is killed at a point of tiering, and the next run after it."""

import functools
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from deltalake import DeltaTable

import strandline as sl
from strandline.tiering import SegmentCatalogue, SegmentState, sweep
from strandline.tiering.routing import topic_folder
from strandline.tiering.segment import partition_of
from tests.tiering.tier_process import tier_and_merge

BACKENDS = ("file", "sqlite")
PROCESS = Path(__file__).with_name("tier_process.py")
ROOT = PROCESS.parents[2]


def tiered(url: str, store: str, die_at: int) -> "subprocess.CompletedProcess[str]":
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


@functools.cache
def points(backend: str) -> int:
    """Return how many points there are to be killed at."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"{backend}:{folder}/log"
        filled(url)
        done = tiered(url, f"file://{folder}/cold", 0)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)


def kill_at(backend: str, point: int, folder: Path) -> None:
    """Kill a process there, let another one tier the same, and check what is left."""
    url, cold = f"{backend}:{folder / 'log'}", folder / "cold"
    store = f"file://{cold}"
    records = filled(url)
    killed = tiered(url, store, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    with sl.open(url) as log:
        assert list(log.read("t", 0, 0)) == records, point
        tier_and_merge(log, store)
        sweep(log, store)

        assert log.evict("t", 0, 0) == 20
        assert log.verify("t")[0].is_sound
        assert list(log.read("t", 0, 0)) == records
        place = partition_of(log.topic("t"), 0)
        with SegmentCatalogue(log) as catalogue:
            catalogue.follow_all()
            listed = catalogue.segments(place)
        assert [(each.start, each.end) for each in listed] == [(0, 20)]
        assert {each.state for each in listed} == {SegmentState.COPY_FINISHED}
        assert len(list(cold.rglob("*.parquet"))) == 1
        table = DeltaTable(cold / topic_folder(log.topic("t")))
        offsets = table.to_pyarrow_table(columns=["_offset"]).column("_offset").to_pylist()
        assert sorted(offsets) == [record.offset for record in records]


def run(seed: int) -> None:
    """Kill at the next point: consecutive seeds come to all of them."""
    backend = BACKENDS[seed % len(BACKENDS)]
    with tempfile.TemporaryDirectory() as folder:
        kill_at(backend, 1 + seed // len(BACKENDS) % points(backend), Path(folder))
