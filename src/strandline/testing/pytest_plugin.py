"""Fixtures for tests of programs that use a log. pytest finds them if strandline is installed.

See docs/howto/test-your-code.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

# Every run of pytest loads this module, so the fixtures import what they need.
if TYPE_CHECKING:
    from os import PathLike

    from strandline.log import Log
    from strandline.testing.fake_clock import FakeClock
    from strandline.testing.faulty_io import FaultyIo


@dataclass(frozen=True, slots=True)
class FaultyLog:
    """A `file:` log, and its io, which fails as planned by a test."""

    log: "Log"
    io: "FaultyIo"


@pytest.fixture
def log_url(tmp_path: "PathLike[str]") -> str:
    """Return the URL of a log of this test; override it to test another backend."""
    return f"file:{tmp_path.__fspath__()}/strandline-log"


@pytest.fixture
def log(log_url: str) -> "Iterator[Log]":
    """Return a new log, which is closed after the test."""
    from strandline.opening import open_log  # noqa: PLC0415

    with open_log(log_url) as opened:
        yield opened


@pytest.fixture
def fake_clock() -> "FakeClock":
    """Return a clock that only advances when the test moves it."""
    from strandline.testing.fake_clock import FakeClock  # noqa: PLC0415

    return FakeClock()


@pytest.fixture
def faulty_log(tmp_path: "PathLike[str]") -> Iterator[FaultyLog]:
    """Return a new `file:` log whose file operations can be made to fail."""
    from strandline.io import SystemIo  # noqa: PLC0415
    from strandline.log import Log  # noqa: PLC0415
    from strandline.stores.files import FileStore  # noqa: PLC0415
    from strandline.testing.faulty_io import FaultyIo  # noqa: PLC0415

    io = FaultyIo(SystemIo())
    opened = Log(FileStore(f"{tmp_path.__fspath__()}/strandline-faulty-log", io=io))
    try:
        yield FaultyLog(opened, io)
    finally:
        io.clear_faults()
        opened.close()
