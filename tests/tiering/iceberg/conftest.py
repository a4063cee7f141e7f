"""A catalogue of Iceberg tables for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiering.iceberg.tables import SteeredCatalog, settings


@pytest.fixture(autouse=True)
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in settings(tmp_path / "lake").items():
        monkeypatch.setenv(name, value)
    yield
    SteeredCatalog.before = SteeredCatalog.after = None
