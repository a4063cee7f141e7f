"""Jobs in a session of a Spark Connect server that runs already."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import strandline as sl
from tests.spark.as_sink import numbers_in
from tests.spark.as_spark import fill

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.connect_server", str(tmp_path)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if "SPARK" not in name},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        yield started.stdout.readline().strip()
    finally:
        started.stdin.close()
        started.wait()
        started.stdout.close()


def test_commands_use_the_server_that_the_environment_names(server: str, tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'log'}"
    with sl.open(url) as log:
        log.create_topic("t", partitions=2)
        log.create_topic("copy")
        fill(log, 30)

        audited = run(server, "audit", "t", "--url", url)
        derived = run(server, "derive", "t", "copy", "--checkpoint", f"{tmp_path}/c", "--url", url)
        latest = run(server, "export", "t", f"{tmp_path}/exported", "--url", url)

        assert (audited["is_sound"], audited["records"]) == (True, 30)
        assert (derived["rows"], latest["rows"]) == (30, 30)
        assert numbers_in(log, "copy") == [*range(30)]


def run(server: str, *words: str) -> dict[str, object]:
    """Return the answer of a command, which starts no JVM."""
    kept = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    ended = subprocess.run(
        [sys.executable, "-m", "strandline", "pipeline", *words, "--json"],
        env={**kept, "SPARK_REMOTE": server, "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = msgspec.json.decode(ended.stdout)
    return found
