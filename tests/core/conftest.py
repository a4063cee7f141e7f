"""What tests of followers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from tests.logs import file_log


@pytest.fixture
def reader(log: Log, tmp_path: Path) -> Iterator[Log]:
    """Return another log object: to it, the writer is as good as another process."""
    with file_log(str(tmp_path / "log"), mode="read") as opened:
        yield opened
