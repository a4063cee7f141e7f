"""The same suite without the core: conformance, crashes, faults and flipped bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.plain import needs_core

ROOT = Path(__file__).parents[2]
SLICES = (
    "tests/conformance/test_file.py",
    "tests/conformance/test_memory.py",
    "tests/conformance/test_sqlite.py",
    "tests/log/files/test_bit_flips.py",
    "tests/log/files/test_crash_images.py",
    "tests/log/files/test_failing_calls.py",
    "tests/processes/test_kills.py",
    "tests/values",
    "tests/core",
)


@needs_core
@pytest.mark.slow
def test_the_suite_passes_in_plain_python() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-x", "-m", "not slow", *SLICES],
        cwd=ROOT,
        env={**os.environ, "STRANDLINE_CORE": "off"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 0, answer.stdout[-5000:]
