"""No batch is appended to or read from a log before its memory was validated."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import draft
from strandline.values import batches
from strandline.values.batches import SCHEMA_DEPTH_MAX, decode_schema
from tests.log.invalid_batches import INVALID, MEMORY, deep, null_in_a_struct

Made = Callable[[], pa.RecordBatch]
GOOD = pa.record_batch({"x": ["one", None]})


@pytest.fixture(params=["memory", "file", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sl.Log]:
    """Return a log of each kind with a topic of batches."""
    url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
    with sl.open(url) as log:
        log.create_topic("t", value_kind=sl.ValueKind.BATCH)
        yield log


def store_unchecked(log: sl.Log, batch: pa.RecordBatch) -> None:
    """Append as a version did that checked nothing."""

    def encoded(batch: pa.RecordBatch) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return sink.getvalue()

    with (
        mock.patch.object(draft, "encode_measured", encoded),
        mock.patch.object(draft, "check_structure", return_value=None),
    ):
        log.append("t", batch)


@pytest.mark.parametrize("made", INVALID)
def test_an_invalid_batch_is_refused_and_nothing_is_stored(log: sl.Log, made: Made) -> None:
    with pytest.raises(sl.InvalidError):
        log.append("t", made())
    with pytest.raises(sl.InvalidError):
        log.append_many("t", [GOOD, made()])
    with pytest.raises(sl.InvalidError):
        log.scope().publish("t", made())

    assert log.marks("t", 0).high == 0


@pytest.mark.parametrize("made", [made for made in INVALID if made is not null_in_a_struct])
def test_an_invalid_batch_of_the_right_schema_is_refused(log: sl.Log, made: Made) -> None:
    batch = made()
    try:
        log.scope().register("typed", batch.schema)
    except sl.InvalidError:
        assert [topic.name for topic in log.topics()] == ["t"]
        return

    with pytest.raises(sl.InvalidError):
        log.scope().publish("typed", batch)

    assert log.marks("typed", 0).high == 0


@pytest.mark.parametrize("made", INVALID)
def test_an_invalid_batch_ends_no_transaction_of_the_caller(tmp_path: Path, made: Made) -> None:
    with sl.open(f"sqlite:{tmp_path / 'events'}") as log:
        log.create_topic("t", value_kind=sl.ValueKind.BATCH)

        with log.transaction():
            log.append("t", GOOD)
            with pytest.raises(sl.InvalidError):
                log.append("t", made())

        assert [record.value for record in log.read("t", 0, 0)] == [GOOD]


def test_what_was_validated_is_what_is_stored(log: sl.Log) -> None:
    content = bytearray(b"abc")
    offsets = pa.py_buffer(b"\x00\x00\x00\x00\x03\x00\x00\x00")
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(content))
    receipt = log.append("t", pa.RecordBatch.from_arrays([text], ["x"]))

    content[:] = b"\xff\xff\xff"

    (record,) = log.read("t", 0, receipt.offset)
    assert isinstance(record.value, pa.RecordBatch)
    assert record.value.to_pydict() == {"x": ["abc"]}


def test_nulls_below_a_null_struct_are_none_of_its_fields(log: sl.Log) -> None:
    child = pa.array([None, 1], pa.int32())
    fields = [pa.field("a", pa.int32(), nullable=False)]
    column = pa.StructArray.from_arrays([child], fields=fields, mask=pa.array([True, False]))

    log.append("t", pa.RecordBatch.from_arrays([column], ["x"]))

    (record,) = log.read("t", 0, 0)
    assert isinstance(record.value, pa.RecordBatch)
    assert record.value.to_pydict() == {"x": [None, {"a": 1}]}


def test_as_deep_as_allowed_is_read_back(log: sl.Log) -> None:
    batch = deep(SCHEMA_DEPTH_MAX)
    log.scope().register("typed", batch.schema)

    log.scope().publish("typed", batch)

    (delivered,) = log.scope().replay("typed", 0)
    assert delivered.batch == batch  # type: ignore[union-attr] # Of a topic of batches.
    with pytest.raises(sl.InvalidError, match="too deeply"):
        log.append("t", deep(SCHEMA_DEPTH_MAX + 1))


@pytest.mark.parametrize("made", MEMORY)
def test_what_an_older_version_stored_unchecked_is_handed_to_no_reader(
    log: sl.Log, made: Made
) -> None:
    store_unchecked(log, made())
    log.append("t", GOOD)

    reads: tuple[Callable[[], object], ...] = (
        lambda: list(log.read("t", 0, 0)),
        lambda: list(log.read_batches("t", 0, 0, 1)),
        lambda: log.subscribe("t", start=0).next(timeout_s=0),
        lambda: log.subscribe("t", start=0, where="x = 'zz'").next(timeout_s=0),
        lambda: list(log.scope().replay("t", 0)),
    )
    for read in reads:
        with pytest.raises(sl.CorruptError):
            read()
    assert [record.value for record in log.read("t", 0, 1)] == [GOOD]


@pytest.mark.parametrize("content", [b"", b"arrow", b"\xff" * 64])
def test_bytes_that_are_no_schema_are_an_error_of_ours(content: bytes) -> None:
    with pytest.raises(sl.InvalidError, match="schema"):
        decode_schema(content)


def reaches_a_reader(log: sl.Log, made: Made) -> bool:
    """Return whether a batch was stored, or given to a reader, though it is invalid."""
    try:
        log.append("t", made())
        list(log.read("t", 0, 0))
    except sl.StrandlineError:
        return False
    return True


@pytest.mark.parametrize(
    ("check", "made"),
    [
        ("_validate", no_such)
        for no_such in MEMORY
        if no_such.__name__ in ("no_utf8", "no_such_word", "falling_offsets")
    ]
    + [("_check_nulls", null_in_a_struct)],
)
def test_without_a_check_an_invalid_batch_reaches_readers(check: str, made: Made) -> None:
    """Planted: each check that is taken out lets through what it is for."""

    def nothing(*_: Any, **__: Any) -> None:
        pass

    with sl.open("memory:") as log:
        log.create_topic("t", value_kind=sl.ValueKind.BATCH)
        assert not reaches_a_reader(log, made)
        with mock.patch.object(batches, check, nothing):
            assert reaches_a_reader(log, made)
