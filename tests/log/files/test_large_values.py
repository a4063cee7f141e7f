"""Values that are written in pieces, since a copy costs more than a call."""

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from strandline.io import SystemIo
from strandline.log.draft import draft
from strandline.stores.files.frame import LARGE_BYTES, encode_row, encode_rows
from strandline.testing import FaultyIo
from strandline.values import Event, FailedError, ValueKind
from tests.logs import file_log

ROWS = LARGE_BYTES // 4


def batch(first: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": list(range(first, first + ROWS))})


@pytest.mark.parametrize("key", [None, "c-9", "å" * 300])
def test_pieces_are_what_one_row_is(key: str | None) -> None:
    for kind, value in ((ValueKind.BATCH, batch(0)), (ValueKind.BYTES, bytes(LARGE_BYTES))):
        drafted = draft(value, key, kind, 1 << 24)

        assert b"".join(encode_row(drafted)) == encode_rows([drafted])


def test_large_values_come_back_with_key_tenant_and_producer(tmp_path: Path) -> None:
    with file_log(str(tmp_path / "log"), segment_bytes=1 << 20) as log:
        log.create_topic("rows", value_kind=ValueKind.BATCH, proof=True)
        for number in range(8):
            key = f"k-{number}"
            log.append("rows", batch(number), key=key, tenant="acme", producer="p", sequence=number)
        log.append_many("rows", [batch(8), batch(9)])

        repeat = log.append("rows", batch(3), tenant="acme", producer="p", sequence=3)

    with file_log(str(tmp_path / "log"), mode="read") as log:
        found = list(log.read("rows", 0, 0))
        assert [record.value for record in found] == [batch(number) for number in range(10)]
        assert [record.key for record in found[:8]] == [f"k-{number}" for number in range(8)]
        assert repeat.is_repeat
        assert repeat.offset == 3
        assert all(report.is_sound for report in log.verify("rows"))


@pytest.mark.parametrize("kept", [0, 20, 60, 4096, 1 << 17])
def test_a_value_of_which_only_a_part_was_written_is_none(tmp_path: Path, kept: int) -> None:
    # One call writes the head of the frame, the value, and what follows it.
    io = FaultyIo(SystemIo())
    path = str(tmp_path / "log")
    log = file_log(path, io=io)
    log.create_topic("rows", value_kind=ValueKind.BATCH)
    log.append("rows", batch(0))
    io.write_short(1, errno.EIO, keep_bytes=kept, forever=True)
    with pytest.raises(FailedError):
        log.append("rows", batch(1), key="lost")
    log.close()

    with file_log(path) as again:
        again.append("rows", batch(2))
        assert [record.value for record in again.read("rows", 0, 0)] == [batch(0), batch(2)]


def test_a_value_that_was_written_is_no_longer_in_memory(tmp_path: Path) -> None:
    large = pa.RecordBatch.from_pydict({"number": list(range(500_000))})
    with file_log(str(tmp_path / "log")) as log:
        log.create_topic("rows", value_kind=ValueKind.BATCH)
        log.append("rows", batch(0))
        before = pa.total_allocated_bytes()

        log.append("rows", large)

        assert pa.total_allocated_bytes() - before < large.nbytes // 2


def test_many_events_at_once_count_as_large_as_one_by_one(tmp_path: Path) -> None:
    events = [Event("order.created", {"note": "smörgås" * n}, key=f"ö-{n}") for n in range(200)]
    with file_log(str(tmp_path / "log")) as log:
        for name in ("one", "many"):
            log.create_topic(name, retention_bytes=10_000)
        for event in events:
            log.append("one", event)
        log.append_many("many", events)

        low = [log.apply_retention(name)[0] for name in ("one", "many")]

        assert low[0].low == low[1].low > 0


def test_retention_by_bytes_goes_over_segments(tmp_path: Path) -> None:
    with file_log(str(tmp_path / "log"), segment_bytes=5_000) as log:
        log.create_topic("raw", value_kind="bytes")
        for _ in range(100):
            log.append("raw", b"x" * 1_000)

        lows = []
        for kept in (40, 35, 1):
            log.change_retention("raw", retention_age_s=None, retention_bytes=kept * 1_000)
            (report,) = log.apply_retention("raw")
            lows.append(report.low)

    assert lows == [60, 65, 99]
