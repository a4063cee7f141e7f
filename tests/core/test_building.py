"""The core's sources: small, free of warnings, in step with Python's own headers."""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "strandline" / "_core"
LINES_MAX = 400
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
ZIG_LOCK = ROOT / "requirements" / "zig.txt"

needs_compiler = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")


def built(tmp_path: Path, compiler: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "tools" / "build_core.py"), "--compiler", compiler]
    command += [f"--flag={flag}" for flag in flags]
    return subprocess.run(
        [*command, "--output", str(tmp_path / "core.so")],
        capture_output=True,
        text=True,
        check=False,
    )


def pinned_zig() -> Path:
    """Return the compiler that set-up takes where there is no other; it is fetched once."""
    folder = ROOT / ".cache" / "zig" / hashlib.sha256(ZIG_LOCK.read_bytes()).hexdigest()[:16]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", fresh]
            command += ["--require-hashes", "-r", str(ZIG_LOCK)]
            fetched = subprocess.run(command, capture_output=True, text=True, check=False)
            if fetched.returncode:
                pytest.skip(f"ziglang could not be fetched: {fetched.stderr.strip()[-200:]}")
            Path(fresh, "ziglang").rename(folder)
    return folder / "zig"


def test_each_file_is_one_short_idea() -> None:
    long = {
        path.name: lines
        for path in (*SOURCES.glob("*.c"), *SOURCES.glob("*.h"))
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
    }

    assert not long


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    "compiler",
    [
        pytest.param(each, marks=pytest.mark.heavy if each != COMPILERS[0] else ())
        for each in COMPILERS
    ],
)
def test_the_sources_compile_without_a_warning(tmp_path: Path, compiler: str) -> None:
    answer = built(tmp_path, compiler, "-Werror")

    assert answer.returncode == 0, answer.stderr


@pytest.mark.heavy
def test_zig_compiles_the_sources_without_a_warning(tmp_path: Path) -> None:
    answer = built(tmp_path, f"{shlex.quote(str(pinned_zig()))} cc", "-Werror")

    assert answer.returncode == 0, answer.stderr


@pytest.mark.heavy
def test_the_static_analyser_finds_nothing(tmp_path: Path) -> None:
    if "gcc" not in COMPILERS:
        pytest.skip("there is no gcc, whose analyser it is")

    answer = built(tmp_path, "gcc", "-fanalyzer", "-Werror")

    assert answer.returncode == 0, answer.stderr


@needs_compiler
@pytest.mark.slow
def test_what_abi3_declares_is_what_python_declares(tmp_path: Path) -> None:
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        pytest.skip("Python's headers are not installed")

    answer = built(tmp_path, COMPILERS[0], "-Werror", "-DSTRANDLINE_PYTHON_H", f"-I{headers}")

    assert answer.returncode == 0, answer.stderr


@pytest.mark.slow
def test_without_a_compiler_the_build_reports_it(tmp_path: Path) -> None:
    answer = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tools" / "build_core.py"),
            "--output",
            str(tmp_path / "core.so"),
        ],
        env={"PATH": str(tmp_path)},
        check=False,
    )

    assert answer.returncode in (0, 3)
    assert (tmp_path / "core.so").exists() == (answer.returncode == 0)


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["on", "off"])
def test_a_wheel_carries_the_core_where_it_can_be_built(tmp_path: Path, choice: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "STRANDLINE_CORE": choice},
        capture_output=True,
        check=True,
    )

    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    is_built = choice == "on" and bool(COMPILERS)
    assert ("strandline/_core/core.abi3.so" in names) == is_built
    assert ("-cp311-abi3-" if is_built else "-py3-none-any") in wheel.name
    assert "strandline/_core/core.pyi" in names
    assert not [name for name in names if name.endswith((".c", ".h"))]
