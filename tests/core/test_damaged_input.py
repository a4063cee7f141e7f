"""Damaged input, with and without sanitizers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core import fuzz
from tests.core.plain import needs_core
from tests.core.test_building import COMPILERS, SOURCES, built, needs_compiler

pytestmark = needs_core


@pytest.mark.slow
def test_damaged_input_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "INPUTS_PER_SEED", 5_000)

    fuzz.run(1)


@needs_compiler
@pytest.mark.heavy
def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
    answer = built(tmp_path, COMPILERS[0], *flags)
    if answer.returncode:
        pytest.skip(f"this compiler has no sanitizers: {answer.stderr[-200:]}")
    runtime = subprocess.run(
        [COMPILERS[0], "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    library = str(tmp_path / "core.so")

    for arguments in (
        ("tests.core.fuzz", "1", library),
        ("tests.core.lane_check", library, str(tmp_path)),
    ):
        checked = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=SOURCES.parents[2],
            env={
                **os.environ,
                "LD_PRELOAD": runtime,
                "ASAN_OPTIONS": "detect_leaks=0",
                "STRANDLINE_CORE": "on",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stderr[-3000:]
