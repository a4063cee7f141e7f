"""A log that moves into PostgreSQL while its copying is killed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.moves.copy_kills import kill_copies

pytestmark = pytest.mark.slow


def test_a_copy_that_is_killed_continues(tmp_path: Path, new_url: Callable[[], str]) -> None:
    assert kill_copies(tmp_path, "file", new_url(), kills=2, seed=2) > 0
