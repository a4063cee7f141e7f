"""Damaged input and threads, with and without sanitizers."""

import os
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from strandline.stores.files.frame import encode_frame
from tests.core import fuzz
from tests.core.fuzz import bodies_of_frames, frame_check
from tests.core.plain import needs_core
from tests.core.test_building import COMPILERS, SOURCES, built, needs_compiler

pytestmark = needs_core


@pytest.mark.slow
def test_damaged_input_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "INPUTS_PER_SEED", 5_000)

    fuzz.run(1)


@pytest.mark.slow
@pytest.mark.parametrize("which", range(4))
def test_a_bit_that_is_flipped_behind_a_right_checksum_is_read_as_by_plain_python(
    which: int,
) -> None:
    core = import_module("strandline._core.core")
    kind, count, body = bodies_of_frames(core, random.Random(7))[which]
    check = frame_check(core)

    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        content, _ = encode_frame(9, 3, (kind, 0, 5, count, 17, 0), bytes(flipped))
        check(content, count, 1 << 62)


def sanitized(folder: Path, sanitizers: str, runtime: str) -> dict[str, str]:
    """Build the core with sanitizers; return the environment to run it in, or skip."""
    flags = (f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-g", "-O1")
    answer = built(folder, COMPILERS[0], *flags)
    if answer.returncode:
        pytest.skip(f"this compiler has no such sanitizers: {answer.stderr[-200:]}")
    found = subprocess.run(
        [COMPILERS[0], f"-print-file-name={runtime}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = {
        **os.environ,
        "LD_PRELOAD": found,
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "exitcode=66",
        "STRANDLINE_CORE": "on",
    }
    command = [sys.executable, "-c", "import threading"]
    trial = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if trial.returncode:
        pytest.skip(f"Python does not run with {runtime} here: {trial.stderr[-200:]}")
    return environment


def checked(environment: dict[str, str], *arguments: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=SOURCES.parents[2],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]


@needs_compiler
@pytest.mark.heavy
def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    environment = sanitized(tmp_path, "address,undefined", "libasan.so")
    library = str(tmp_path / "core.so")

    checked(environment, "tests.core.fuzz", "1", library)
    checked(environment, "tests.core.lane_check", library, str(tmp_path))


@needs_compiler
@pytest.mark.heavy
def test_the_thread_sanitizer_finds_no_race(tmp_path: Path) -> None:
    environment = sanitized(tmp_path, "thread", "libtsan.so")

    checked(environment, "tests.core.thread_check", str(tmp_path / "core.so"), str(tmp_path))
