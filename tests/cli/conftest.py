"""Each test of the program works in its own folder, on the default log there."""

from pathlib import Path

import pytest

from tests.cli.program import prepare


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder of this test's own, which a shell takes for two words."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("STRANDLINE_URL", raising=False)
    monkeypatch.delenv("STRANDLINE_STATE_DIR", raising=False)
    return folder


@pytest.fixture
def orders(folder: Path) -> str:
    """Make the log that the examples continue from, and return the name of its topic."""
    prepare()
    return "orders"
