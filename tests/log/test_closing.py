"""What a closed log leaves behind, and how long closing may take."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

import strandline as sl
from strandline.log import Log
from strandline.writes import coordinator
from tests.logs import file_log, sqlite_log

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


@pytest.mark.parametrize("opened", [file_log, sqlite_log])
def test_a_close_that_finds_a_thread_at_work_for_ever_raises_in_time(
    opened: Callable[..., Log], tmp_path: Path
) -> None:
    log = opened(str(tmp_path / "events"), lock_timeout_s=0.05)
    log.create_topic("orders")
    log.append("orders", sl.Event("made", {}))
    alive = [each for each in coordinator._alive if not each._stopping]  # noqa: SLF001 - Held open.
    drains = [each._drain for each in alive]  # noqa: SLF001 - Held open.
    taken = [drain for drain in drains if drain.lock.acquire(False)]

    with mock.patch.object(coordinator, "STOP_TIMEOUT_S", 0.05):
        with pytest.raises(sl.UnavailableError):
            log.close()
        for drain in taken:
            drain.lock.release()
        log.close()
