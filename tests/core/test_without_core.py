"""The same suite without the core: conformance, crashes, faults and flipped bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.plain import needs_core

ROOT = Path(__file__).parents[2]
# Each with the marks of what is left out.
SLICES = {
    "rules": (
        "not slow and not heavy",
        "tests/conformance/test_file.py",
        "tests/log/files/test_bit_flips.py",
        "tests/log/files/test_failing_calls.py",
        "tests/values/test_event.py",
        "tests/values/test_record.py",
        "tests/core/test_choice.py",
    ),
    "crashes": ("not heavy", "tests/log/files/test_crash_images.py"),
    "other stores": (
        "not slow and not heavy",
        "tests/conformance/test_memory.py",
        "tests/conformance/test_sqlite.py",
    ),
    "kills": ("not heavy", "tests/processes/test_kills.py"),
}


@needs_core
@pytest.mark.slow
@pytest.mark.parametrize(
    "slice_",
    [pytest.param(each, marks=pytest.mark.heavy if each != "rules" else ()) for each in SLICES],
)
def test_the_suite_passes_in_plain_python(slice_: str) -> None:
    marks, *paths = SLICES[slice_]

    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-x", "-m", marks, *paths],
        cwd=ROOT,
        env={**os.environ, "STRANDLINE_CORE": "off"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 0, answer.stdout[-5000:]
