"""`make demo`, as a person would run it, only shorter."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_reads_back_everything_it_appended() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env={**os.environ, "DEMO_EVENTS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("read 200, lost 0, repeated 0, gaps 0") == 3
    assert not done.stderr, "progress is for terminals only"
