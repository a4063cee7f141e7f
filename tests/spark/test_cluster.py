"""Strandline on a Spark cluster of several processes, one of which is lost."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import strandline as sl
from strandline.spark.cluster import write_code
from strandline.tiering import tier
from tests.server.processes import ServerProcess
from tests.spark.as_sink import numbers_in, repeated
from tests.spark.cluster import (
    Cluster,
    bare_python,
    driver_environment,
    running_cluster,
    why_nothing_can_be_hidden,
)

ROOT = Path(__file__).parents[2]
RECORDS = 800


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_worker_that_is_lost_costs_no_row_and_repeats_none(tmp_path: Path, bucket: str) -> None:
    url = f"file:{tmp_path / 'log'}"
    python = bare_python(tmp_path)
    assert subprocess.run([python, "-c", "import strandline"], check=False).returncode != 0
    with sl.open(url) as log, running_cluster(tmp_path) as cluster:
        _fill(log, bucket)

        with _driver(cluster, python, url, tmp_path, bucket) as driver:
            copied = _wait_for_some(log, driver)
            cluster.workers[0].kill()
            said, complained = driver.communicate()

        assert driver.returncode == 0, complained
        found = json.loads(said.splitlines()[-1])
        assert 0 < copied < RECORDS, "the worker was lost in the middle"
        assert found["rows"] == RECORDS
        assert all("strandline.zip" in path for path in found["code"])
        assert repeated(numbers_in(log, "copy")) == {}
        assert numbers_in(log, "copy") == list(range(RECORDS))
        assert found["tiered"] == RECORDS
        assert found["is_sound"]


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.skipif(why_nothing_can_be_hidden() is not None, reason="needs mount namespaces")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_executors_without_the_logs_folder_read_and_write_a_served_log(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    with sl.open(f"file:{hidden / 'log'}") as log:
        for name in ("numbers", "copy", "derived"):
            log.create_topic(name, partitions=2)
        numbers = [sl.Event("n", {"n": n}, key=f"key {n}") for n in range(RECORDS)]
        log.append_many("numbers", numbers)
        monkeypatch.setenv("STRANDLINE_TOKEN", _token(f"file:{hidden / 'log'}"))
        with (
            ServerProcess(str(hidden / "log")) as server,
            running_cluster(tmp_path, hidden=hidden) as cluster,
            _driver(cluster, bare_python(tmp_path), server.url, tmp_path, bucket, hidden) as driver,
        ):
            said, complained = driver.communicate()

        assert driver.returncode == 0, complained
        found = json.loads(said.splitlines()[-1])
        assert found["seen"] == ["[]"], "executors do not see the log's folder"
        assert found["secrets"] == []
        assert found["derived"] == 2 * RECORDS
        assert found["is_sound"]
        assert numbers_in(log, "copy") == sorted([*range(RECORDS)] * 2)
        assert numbers_in(log, "derived") == sorted([*range(RECORDS)] * 2)


@pytest.mark.slow
def test_the_code_that_is_sent_is_importable_and_the_same_each_time(tmp_path: Path) -> None:
    first = Path(write_code(str(tmp_path))).read_bytes()

    path = write_code(str(tmp_path))

    assert Path(path).read_bytes() == first
    found = subprocess.run(
        [bare_python(tmp_path), "-c", "import pyspark_strandline, strandline; strandline.open"],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr


def _token(url: str) -> str:
    """Return a token of the server, with all rights."""
    made = subprocess.run(
        [
            *(sys.executable, "-m", "strandline", "token", "create", "--json"),
            *("--url", url, "--scope", "read,append,consume,admin"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found: str = json.loads(made.stdout)["token"]
    return found


def _fill(log: sl.Log, bucket: str) -> None:
    """Append numbers, half of which move to the bucket."""
    for name in ("numbers", "copy"):
        log.create_topic(name, partitions=2)
    for half in range(2):
        numbers = range(half * RECORDS // 2, (half + 1) * RECORDS // 2)
        log.append_many("numbers", [sl.Event("n", {"n": n}, key=f"key {n}") for n in numbers])
        if half == 0:
            tier(log, "numbers", bucket, include_open=True, local_bytes=0)
    assert str(log.segments("numbers", 0)[0].location).startswith(bucket)


@contextmanager
def _driver(
    cluster: Cluster, python: Path, url: str, folder: Path, bucket: str, *more: Path
) -> Iterator["subprocess.Popen[str]"]:
    given = [cluster.master, url, str(folder), bucket, *map(str, more)]
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.cluster_driver", *given],
        cwd=ROOT,
        env=driver_environment(python),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield driver
    finally:
        driver.kill()
        driver.wait()


def _wait_for_some(log: sl.Log, driver: "subprocess.Popen[str]") -> int:
    """Wait until some of the rows are copied, and return how many."""
    while driver.poll() is None:
        copied = sum(log.marks("copy", partition).high for partition in range(2))
        if copied:
            return int(copied)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(0.05)
    pytest.fail(driver.communicate()[1])
