"""Columns that the core gathers from many frames: those that plain Python reads."""

import errno
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log.columns import EVENT_SCHEMA, narrowed
from strandline.stores.files import reading
from strandline.testing import FaultyIo
from strandline.values import CorruptError, StrandlineError, TrimmedError
from tests.core.plain import needs_core
from tests.core.test_reader import filled, mixed
from tests.logs import file_log

pytestmark = needs_core

NAMES = EVENT_SCHEMA.names
STARTS = [0, 1, 2, 4, 7, 100, 163, 164, 200, 900, 1129, 1130, 1131, 2000, 2261]


def seen(batches: Iterator[pa.RecordBatch], names: list[str]) -> tuple[pa.Table, Any]:
    """Return the rows of a read, all of them valid, and the error that ended it."""
    schema = pa.schema([EVENT_SCHEMA.field(name) for name in names])
    found: list[pa.RecordBatch] = []
    error: Any = None
    try:
        found.extend(batches)
    except StrandlineError as raised:
        error = type(raised), str(raised)
    for each in found:
        each.validate(full=True)
    return pa.Table.from_batches(found, schema).combine_chunks(), error


def both(
    monkeypatch: pytest.MonkeyPatch, url: str, names: list[str], *span: int, **options: Any
) -> tuple[Any, Any]:
    """Return what the core and plain Python make of a read of these columns."""
    with sl.open(url, mode="read") as log:
        ours = seen(narrowed(log.read_batches("t", 0, *span, **options), names), names)
    with monkeypatch.context() as without, sl.open(url, mode="read") as log:
        without.setattr(reading, "IS_COMPILED", False)
        return ours, seen(narrowed(log.read_batches("t", 0, *span, **options), names), names)


def gathered_rows(monkeypatch: pytest.MonkeyPatch, url: str, names: list[str]) -> int:
    """Return how many rows of a read the core has gathered."""
    counts = []
    batch_of = reading.Reading._gathered_batch  # noqa: SLF001 - Only this shows which code has read.

    def noted(read: reading.Reading, found: Any, schema: pa.Schema) -> pa.RecordBatch:
        counts.append(found.stop - found.base)
        return batch_of(read, found, schema)

    with monkeypatch.context() as patched, sl.open(url, mode="read") as log:
        patched.setattr(reading.Reading, "_gathered_batch", noted)
        list(narrowed(log.read_batches("t", 0, 0), names))
    return sum(counts)


@pytest.mark.parametrize("seed", range(3))
def test_any_columns_of_any_range_are_read_as_by_plain_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    url = filled(tmp_path / "log", seed)
    chosen = random.Random(seed)

    for start in STARTS:
        names = chosen.sample(NAMES, chosen.randrange(1, len(NAMES) + 1))
        limits: Any = chosen.choice([{}, {"records_max": 250}, {"bytes_max": 9_000}])
        ours, plain = both(monkeypatch, url, names, start, chosen.randrange(start, 2300), **limits)

        assert ours == plain, (start, names, limits)

    assert gathered_rows(monkeypatch, url, NAMES) > 1000


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_what_the_core_does_not_gather_is_read_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    url = filled(tmp_path / "log")
    for how in (compression, None):
        with file_log(str(tmp_path / "log"), compression=how) as log:
            for events in mixed(3):
                log.append_many("t", events)
            log.append_many("t", next(iter(mixed(4))) * 70, tenant="acme")

    ours, plain = both(monkeypatch, url, NAMES, 0)

    assert ours == plain
    assert ours[0].num_rows > 4 * 1130
    assert ours[0].column("_tenant").to_pylist().count("acme") == 140


def test_many_frames_are_one_record_batch(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path}/log") as log:
        log.create_topic("t")
        for _ in range(20):
            log.append_many("t", [sl.Event("k", number) for number in range(1000)])

        found = [each.num_rows for each in narrowed(log.read_batches("t", 0, 0), ["kind", "_key"])]

    assert found == [17_000, 3_000]


def test_flipped_bits_end_a_read_where_they_end_that_of_plain_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = filled(tmp_path / "log")
    (segment,) = (tmp_path / "log").rglob("segments/*")
    sound = segment.read_bytes()
    used = len(sound.rstrip(b"\0"))

    for seed in range(20):
        chosen, content = random.Random(seed), bytearray(sound)
        for _ in range(chosen.randrange(1, 4)):
            content[chosen.randrange(100, used)] ^= 1 << chosen.randrange(8)
        segment.write_bytes(content)
        # The damage may be in a column that is not asked for.
        ours, plain = both(monkeypatch, url, ["kind", "_offset"], 0)

        assert ours == plain, seed
        assert ours[1][0] is CorruptError


def test_a_read_goes_through_the_io_that_the_log_was_given(tmp_path: Path) -> None:
    filled(tmp_path / "log")
    io = FaultyIo(SystemIo())
    with file_log(str(tmp_path / "log"), io=io, mode="read") as log:
        batches = narrowed(log.read_batches("t", 0, 0), ["kind"])
        io.fail(3, errno.EIO, kinds=["pread"], forever=True)

        with pytest.raises(sl.UnavailableError, match="Input/output error"):
            list(batches)


def test_a_trim_that_overtakes_a_read_ends_it(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path}/log") as log:
        log.create_topic("t")
        for _ in range(40):
            log.append_many("t", [sl.Event("k", "x" * 100) for number in range(1000)])
        batches = narrowed(log.read_batches("t", 0, 0), ["kind", "_offset"])
        first = next(batches).column("_offset")[-1].as_py()
        log.trim("t", 0, before=39_000)

        with pytest.raises(TrimmedError):
            list(batches)

    assert first < 39_000


def test_a_log_that_is_closed_ends_a_read(tmp_path: Path) -> None:
    log = sl.open(filled(tmp_path / "log"))
    batches = narrowed(log.read_batches("t", 0, 0), ["kind"])
    next(batches)
    log.close()

    with pytest.raises(sl.ClosedError):
        list(batches)
