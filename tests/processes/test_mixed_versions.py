"""Processes of an older and of this version share a log while it is being upgraded."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("mixed_version.py")
#: No release has been made yet: the last commit before the server, the core and the lake.
OLD = "1a28f74483ed8474f7e9e040446e0597fda876f0"
SCHEMES = pytest.mark.parametrize("scheme", ["file", "sqlite"])


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the older version."""
    packed = subprocess.run(
        ["git", "archive", OLD, "src"],  # noqa: S607 # The git of the PATH.
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if packed.returncode:
        pytest.skip("the older version is in the history of the repository, which is not here")
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def started(source: Path, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], source: Path) -> Any:
    """Return the answer of a process that has run the sources it was to run."""
    try:
        printed, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0
    told = json.loads(printed.splitlines()[-1])
    assert Path(told["from"]).is_relative_to(source)
    return told["answer"]


def asked(source: Path, *words: object) -> Any:
    return ended(started(source, *words), source)


@pytest.mark.heavy
@SCHEMES
def test_old_and_new_processes_append_to_one_log_and_see_the_same(
    scheme: str, old: Path, tmp_path: Path
) -> None:
    url, new = f"{scheme}:{tmp_path / 'log'}", ROOT / "src"
    first = started(old, "append", url, "old", 100, 200)
    second = started(new, "append", url, "new", 100, 200)
    for process in (first, second):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in (first, second):
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    seen_by_old, seen_by_new = ended(first, old), ended(second, new)

    assert seen_by_old == seen_by_new
    for partition in (0, 1):
        here = sorted(each for each in seen_by_new if each[0] == partition)
        assert [offset for _, offset, _, _ in here] == list(range(100))
        for kind in ("old", "new"):
            assert [n for _, _, name, n in here if name == kind] == list(range(partition, 100, 2))
    for source in (old, new):
        assert asked(source, "verify", url) == [[100, True], [100, True]]


@pytest.mark.heavy
@SCHEMES
def test_a_consumer_continues_in_the_other_version_where_it_was(
    scheme: str, old: Path, tmp_path: Path
) -> None:
    url, new = f"{scheme}:{tmp_path / 'log'}", ROOT / "src"
    writer = started(old, "append", url, "old", 40, 40)
    assert writer.stdin is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()
    ended(writer, old)

    acked = [asked(source, "consume", url, 5) for source in (old, new, old, new)]

    assert [offset for each in acked for offset, _ in each] == list(range(20))
    assert {count for each in acked for _, count in each} == {1}
