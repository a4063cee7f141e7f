"""The worked example of the coordinator, run as a reader would run it."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from strandline.values import InvalidError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kv_store.py"
PAGE = ROOT / "docs" / "howto" / "use-the-write-coordinator.md"


@pytest.fixture(name="example", scope="module")
def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kv_store", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_deduplicates_across_a_restart(example: ModuleType, tmp_path: Path) -> None:
    with example.Store(tmp_path / "pairs") as store:
        store.set("a", "1")
        store.set("b", "2")
        store.set("a", "3")

    with example.Store(tmp_path / "pairs") as store:
        assert store.get("a") == "3"
        assert store.get("b") == "2"
        assert store.get("c") is None


def test_a_refused_pair_is_harmless(example: ModuleType, tmp_path: Path) -> None:
    with example.Store(tmp_path / "pairs") as store:
        with pytest.raises(InvalidError):
            store.set("", "1")

        store.set("a", "1")

        assert store.get("a") == "1"


@pytest.mark.slow
def test_what_was_set_survives_a_kill(tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(EXAMPLE.parent)!r})\n"
        "import pathlib, kv_store\n"
        f"store = kv_store.Store(pathlib.Path({str(tmp_path / 'pairs')!r}))\n"
        "for number in range(10_000_000):\n"
        "    store.set('last', str(number))\n"
        "    print(number, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(50):
        acknowledged = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)
    rest = child.communicate()[0].split("\n")
    acknowledged = max([acknowledged, *(int(line) for line in rest[:-1])])

    reader = program.split("for number", maxsplit=1)[0] + "print(store.get('last'))"
    answer = subprocess.run(
        [sys.executable, "-c", reader], capture_output=True, text=True, check=True
    )

    assert int(answer.stdout) >= acknowledged


def test_it_is_as_short_as_the_page_says() -> None:
    lines = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]

    assert len(lines) < 80
    assert EXAMPLE.read_text() in PAGE.read_text()
