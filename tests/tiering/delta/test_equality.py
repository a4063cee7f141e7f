"""DuckDB, polars, delta-rs and pyiceberg read equal rows of a topic during tiering, with kills."""

from pathlib import Path

import pytest

from tests.tiering.delta import equality

pytestmark = pytest.mark.heavy


def test_every_reader_has_equal_rows_while_movers_are_killed(tmp_path: Path) -> None:
    assert equality.run(tmp_path, seed=1) > 100
