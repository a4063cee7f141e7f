"""What tests of followers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from tests.logs import file_log


@pytest.fixture
def reader(log: Log, tmp_path: Path) -> Iterator[Log]:
    """Return another log object: for it, the writer is like another process."""
    with file_log(str(tmp_path / "log"), mode="read") as opened:
        yield opened
