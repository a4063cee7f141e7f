"""By strace: no durable acknowledgement before the sync that covers it."""

from pathlib import Path

import pytest

from tests.processes import strace, traced_appends
from tests.processes.stores import SCHEMES, url_in

APPENDS = 30
WHY_NOT = strace.why_not()


@pytest.mark.slow
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_durable_acknowledgement_follows_the_sync_that_covers_it(
    scheme: str, tmp_path: Path
) -> None:
    assert traced_faults(scheme, tmp_path) == []


def traced_faults(scheme: str, folder: Path, bug: str | None = None) -> list[str]:
    arguments = [url_in(scheme, folder / "log"), str(APPENDS), *([bug] if bug else [])]
    calls = strace.watch("tests.processes.traced_appends", *arguments, trace=folder / "trace")
    found = [
        strace.unsynced(calls, traced_appends.needle(n), traced_appends.acknowledgement(n))
        for n in range(APPENDS)
    ]
    return [fault for fault in found if fault is not None]


def test_a_sync_that_ends_after_the_acknowledgement_is_noticed() -> None:
    trace = """\
7 pwrite64(3</log/wal>, "needle-1", 8, 0) = 8
7 fdatasync(3</log/wal> <unfinished ...>
8 write(4<pipe:[1]>, "durable-1", 9) = 9
7 <... fdatasync resumed>) = 0
7 pwrite64(3</log/wal>, "needle-2", 8, 8) = 8
7 fdatasync(5</log/other>) = 0
7 fdatasync(3</log/wal>) = -1 EIO (Input/output error)
7 write(4<pipe:[1]>, "durable-2", 9) = 9
7 pwrite64(3</log/wal>, "needle-3", 8, 16) = 8
7 fdatasync(3</log/wal>) = 0
7 write(4<pipe:[1]>, "durable-3", 9) = 9
"""
    calls = list(strace.parsed(trace))

    assert strace.unsynced(calls, "needle-1", "durable-1") is not None
    assert strace.unsynced(calls, "needle-2", "durable-2") is not None
    assert strace.unsynced(calls, "needle-3", "durable-3") is None
