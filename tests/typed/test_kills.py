"""A process that is killed while it registers a topic leaves the whole topic, or none."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import strandline as sl
from tests.typed.registering_process import FIRST, METADATA, SECOND

PROCESS = Path(__file__).with_name("registering_process.py")
ROOT = PROCESS.parents[2]
KILLS = 4


def run(url: str, die_at: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(PROCESS), url, str(die_at)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["file", "sqlite"])
def test_a_kill_at_any_line_leaves_a_topic_with_its_schema_or_none(
    backend: str, tmp_path: Path
) -> None:
    """C9, and the same for each later version."""
    whole = run(f"{backend}:{tmp_path / 'whole'}", 0)
    assert whole.returncode == 0, whole.stderr
    registered, lines = map(int, whole.stdout.split())
    steps = [registered * n // KILLS for n in range(1, KILLS)]
    steps += [registered + (lines - registered) * n // KILLS for n in range(1, KILLS)]
    found: set[int] = set()

    for die_at in steps:
        url = f"{backend}:{tmp_path / f'log-{die_at}'}"
        killed = run(url, die_at)
        assert killed.returncode == -signal.SIGKILL, killed.stderr

        with sl.open(url) as log:
            scope = log.scope("alice")
            topics = scope.topics()
            found.add(sum(len(topic.versions) for topic in topics))
            for topic in topics:
                assert topic.versions in ((FIRST,), (FIRST, SECOND))
                assert topic.metadata == METADATA
            again = scope.register("orders", FIRST, metadata=METADATA)
            assert scope.evolve("orders", SECOND).versions == (FIRST, SECOND)
            assert not topics or again.id == topics[0].id

    assert found >= {0, 1}, "no kill came before the topic was there, or none after it"
