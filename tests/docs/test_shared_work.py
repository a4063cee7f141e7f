"""The worker of the page on sharing work, unchanged, in several processes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import strandline as sl

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "share-work-between-processes.md"
RECORDS = 20


@pytest.mark.slow
def test_workers_share_the_topic_and_succeed_each_other(tmp_path: Path) -> None:
    (program,) = re.findall(r"```py\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "worker.py").write_text(program)
    with sl.open(f"file:{tmp_path / 'events'}") as log:
        log.create_topic("orders", partitions=4)
        for number in range(RECORDS):
            log.append("orders", sl.Event("placed", {"id": number}), partition=number % 4)

    workers = [
        subprocess.Popen(
            [sys.executable, "worker.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        seen = set()
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "started\n"
        with sl.open(f"file:{tmp_path / 'events'}") as log:
            # The first is killed; what it leaves comes to the second.
            workers[0].kill()
            rest, _ = workers[0].communicate()
            seen |= set(rest.splitlines())
            for number in range(RECORDS):
                log.append("orders", sl.Event("placed", {"id": number}), partition=number % 4)
            output = workers[1].stdout
            assert output is not None
            while len(seen) < 2 * RECORDS:
                line = output.readline().strip()
                assert line, "the second has ended"
                seen.add(line)
            workers[1].kill()
            workers[1].communicate()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()

    assert len(seen) == 2 * RECORDS
