"""Each I/O call of a SQLite log fails in turn: nothing acknowledged is lost."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = "tests.log.sqlite_fault_sweep"
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("lasting", ["once", "forever"])
@pytest.mark.parametrize(
    "code", [errno.EIO, errno.ENOSPC, pytest.param(errno.EMFILE, marks=pytest.mark.heavy)]
)
def test_a_fault_at_any_call_loses_nothing_acknowledged(
    tmp_path: Path, code: int, lasting: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", SWEEP, tmp_path, str(code), lasting],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
