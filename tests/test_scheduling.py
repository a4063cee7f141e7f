"""A run of tests continues after one of its processes has died, and runs every test once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SHARED = """
from tests.scheduling import Together

def pytest_xdist_make_scheduler(config, log):
    return Together(config, log)
"""

TESTS = """
import os, signal, time
from pathlib import Path
import pytest

FETCHED = Path(__file__).with_name("fetched")
RUN = Path(__file__).with_name("run")

# Others are collected once the first has run, and in another order.
NUMBERS = {numbers}

def note(name):
    with RUN.open("a") as file:
        file.write(f"{{name}}\\n")

def test_kills_its_process():
    note("kills")
    FETCHED.touch()
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.parametrize("number", NUMBERS)
def test_number(number):
    note(number)
"""

SAME = "list(range(40))"
CHANGED = "list(range(41, -1, -1)) if FETCHED.exists() else list(range(40))"
FEWER = "list(range(20)) if FETCHED.exists() else list(range(40))"


@pytest.mark.parametrize("numbers", [SAME, CHANGED, FEWER], ids=["same", "changed", "fewer"])
def test_a_run_continues_after_a_process_was_killed(numbers: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SHARED)
    (tmp_path / "test_numbers.py").write_text(TESTS.format(numbers=numbers))
    options = ["-q", "-n2", "--max-worker-restart=2", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-c", os.devnull, f"--rootdir={tmp_path}", "."],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"1 failed, 40 passed", done.stdout), done.stdout + done.stderr
    assert done.stdout.count("FAILED") == 1, done.stdout
    run = (tmp_path / "run").read_text().split()
    assert sorted(run) == sorted(["kills", *map(str, range(40))])
