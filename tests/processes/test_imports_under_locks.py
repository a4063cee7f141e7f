"""A process that imports a module for the first time does not block other processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("importing_writer.py")


@pytest.mark.slow
@pytest.mark.parametrize("core", ["on", "off"])
@pytest.mark.parametrize("kind", ["event", "bytes"])
def test_nothing_is_imported_while_a_partition_is_locked(
    kind: str, core: str, tmp_path: Path
) -> None:
    """pyarrow imports pandas with its first array, for up to seconds on a busy machine."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), kind],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "STRANDLINE_CORE": core},
    )

    assert done.stdout.split() == []
