"""What a closed log leaves behind, and how long closing may take."""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.locks import Latch
from strandline.log import Log
from strandline.log.receipts import finish
from strandline.writes import coordinator
from tests.logs import file_log, sqlite_log
from tests.writes.doubles import Call

PATIENCE_S = 10.0


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("strandline")]


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_no_thread_outlives_its_log(scheme: str, tmp_path: Path) -> None:
    before = threads()
    for _ in range(5):
        with sl.open(f"{scheme}:{tmp_path / 'events'}", auto_create=True) as log:
            log.append("orders", sl.Event("made", {}), durability=sl.Durability.DURABLE)

    deadline = time.monotonic() + 2.0
    while len(threads()) > len(before) and time.monotonic() < deadline:
        threading.Event().wait(0.001)
    assert len(threads()) <= len(before)


class StuckIo(SystemIo):
    """Writes that never end, once that is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stuck = False
        self.entered = Latch()
        self.released = Latch()

    def try_lock(self, fd: int, /) -> bool:
        if self.is_stuck:
            self.entered.set()
            self.released.wait(PATIENCE_S)
        return super().try_lock(fd)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [file_log, sqlite_log])
def test_a_close_that_finds_a_thread_at_work_for_ever_raises_in_time(
    kind: Callable[..., Log], tmp_path: Path
) -> None:
    io = StuckIo()
    log = kind(str(tmp_path / "events"), io=io, lock_timeout_s=0.05)
    log.create_topic("orders")
    log.append("orders", sl.Event("made", {}))
    io.is_stuck = True
    writing = Call(lambda: log.append("orders", sl.Event("made", {})))
    assert io.entered.wait(PATIENCE_S)

    with (
        mock.patch.object(coordinator, "STOP_TIMEOUT_S", 0.05),
        pytest.raises(sl.UnavailableError),
    ):
        log.close()

    io.is_stuck = False
    io.released.set()
    with contextlib.suppress(sl.StrandlineError):
        writing.result()
    log.close()


def test_what_became_of_a_write_is_unknown_if_its_log_is_closed_while_it_waits() -> None:
    def wait() -> None:
        raise sl.ClosedError("the log was closed")

    with pytest.raises(sl.UnknownError) as caught:
        finish(wait)

    assert isinstance(caught.value.__cause__, sl.ClosedError)
