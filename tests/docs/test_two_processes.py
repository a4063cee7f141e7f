"""The how-to of two processes, as a person would follow it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "two-processes.md"


@contextmanager
def running(script: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, script.name],
        cwd=script.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def typed(process: subprocess.Popen[str], line: str) -> str:
    """Type a line, and return what is printed then."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return printed(process)


def printed(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
@pytest.mark.timeout(60, method="signal")
def test_one_appends_and_one_tails_and_a_kill_blocks_no_other(tmp_path: Path) -> None:
    scripts = re.findall(r"Save this as `(\w+\.py)`.*?```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, code in scripts:
        (tmp_path / name).write_text(code)

    with running(tmp_path / "append.py") as first, running(tmp_path / "append.py") as second:
        assert typed(first, "low tide") == "appended at offset 0"
        with running(tmp_path / "tail.py") as tail:
            assert printed(tail) == "0 low tide"
            assert typed(second, "high tide") == "appended at offset 1"
            assert printed(tail) == "1 high tide"

            first.kill()

            assert typed(second, "spring tide") == "appended at offset 2"
            assert printed(tail) == "2 spring tide"
