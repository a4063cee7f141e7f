"""Staged files that become segments of the log, and the others. See design 0135."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log.staged import ingest
from strandline.spark.sink import rolling, staging
from strandline.spark.sink.committing import commit
from strandline.spark.sink.intents import Intents
from strandline.spark.sink.staging import Staged
from strandline.values import Durability, InvalidError
from tests.spark.as_sink import Sink, events, numbers_in

ROWS = 30


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'log'}"


@pytest.fixture
def log(url: str) -> Iterator[sl.Log]:
    with sl.open(url) as log:
        yield log


@pytest.fixture
def sink(log: sl.Log, url: str, monkeypatch: pytest.MonkeyPatch) -> Sink:
    """Return a sink for which seven rows are many."""
    monkeypatch.setattr(staging, "BLOCK_ROWS", 7)
    monkeypatch.setattr(rolling, "SEGMENT_BYTES_MIN", 1)
    log.create_topic("t")
    return Sink(log, url)


def inodes(paths: list[str]) -> set[int]:
    return {os.stat(path).st_ino for path in paths}


def staged_files(sink: Sink, *staged: Staged) -> list[str]:
    return [sink.folder.path_of(name) for each in staged for name in each.names]


def segments(log: sl.Log) -> list[str]:
    found = []
    for partition in range(log.describe_topic("t").settings.partitions):
        found += [str(each.location) for each in log.segments("t", partition)]
    return found


def test_the_files_of_tasks_become_segments(sink: Sink, log: sl.Log) -> None:
    staged = [sink.task(0, events(range(ROWS))), sink.task(0, events(range(ROWS, 50)), 1)]
    files = inodes(staged_files(sink, *staged))

    sink.commit(0, staged)
    log.append("t", sl.Event("n", {"n": 50}))

    assert files <= inodes(segments(log))
    assert [record.payload["n"] for record in log.read("t", 0, 0)] == [*range(51)]
    assert log.verify("t")[0].findings == ()
    assert sink.files() == ["batch-0.done"]


def test_each_partition_that_has_many_rows_gets_a_file(
    sink: Sink, log: sl.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "OWN_FILES_MAX", 2)
    log.create_topic("wide", partitions=3)
    sink.topic = "wide"
    staged = sink.task(0, events(range(100)))

    sink.commit(0, [staged])

    assert len(staged.names) == 3
    assert len({block.partition for block in staged.blocks if block.is_laid_out}) == 2
    assert numbers_in(log, "wide") == [*range(100)]


def test_small_files_are_copied_and_not_segments(
    sink: Sink, log: sl.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling, "SEGMENT_BYTES_MIN", 1 << 20)
    staged = sink.task(0, events(range(ROWS)))
    files = inodes(staged_files(sink, staged))

    sink.commit(0, [staged])

    assert not files & inodes(segments(log))
    assert len(segments(log)) == 1
    assert numbers_in(log) == [*range(ROWS)]


def test_rows_that_fill_no_block_are_staged_as_ever(sink: Sink) -> None:
    staged = sink.task(0, events(range(5)))

    assert [block.is_laid_out for block in staged.blocks] == [False]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_that_stops_at_a_file_is_finished(
    sink: Sink, log: sl.Log, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def stop(*args: object) -> None:
        if when == "after":
            ingest(*args)  # type: ignore[arg-type]
        raise InterruptedError

    staged = [sink.task(0, events(range(ROWS))), sink.task(0, events(range(ROWS, 50)), 1)]
    with monkeypatch.context() as patch:
        patch.setattr(rolling, "ingest", stop)
        with pytest.raises(InterruptedError):
            sink.commit(0, staged)
    log.append("t", sl.Event("n", {"n": 50}))

    sink.commit(0, staged)

    assert numbers_in(log) == [*range(51)]
    assert sink.files() == ["batch-0.done"]


def test_a_damaged_file_is_not_recorded(sink: Sink, log: sl.Log) -> None:
    staged = sink.task(0, events(range(ROWS)))
    (path,) = map(Path, staged_files(sink, staged))
    content = bytearray(path.read_bytes())
    content[staged.blocks[1].offset + 200] ^= 1
    path.write_bytes(content)

    with pytest.raises(InvalidError, match="not there"):
        sink.commit(0, [staged])

    assert numbers_in(log) == []


def test_a_tenants_rows_are_copied(sink: Sink, log: sl.Log) -> None:
    sink.tenant = "acme"

    sink.write(0, events(range(ROWS)))

    assert {record.tenant for record in log.read("t", 0, 0)} == {"acme"}
    assert numbers_in(log) == [*range(ROWS)]


def test_an_older_version_reads_what_it_knows_and_no_other_record(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_line(version: int, rows: int) -> bytes:
        with monkeypatch.context() as patch:
            patch.setattr(Intents, "unfinished", interrupted)
            with pytest.raises(InterruptedError):
                sink.write(version, events(range(rows)))
        path = Path(sink.folder.path_of(f"batch-{version}.intent"))
        return path.read_bytes().partition(b"\n")[0]

    def interrupted(_: object) -> None:
        raise InterruptedError

    assert first_line(0, 5).startswith(b"strandline sink 1 ")
    assert first_line(1, ROWS).startswith(b"strandline sink 2 ")
    sink.write(1, events(range(ROWS)))
    assert numbers_in(sink.log) == sorted([*range(5), *range(ROWS)])


def test_a_batch_that_need_not_be_durable_becomes_segments_too(sink: Sink, log: sl.Log) -> None:
    staged = sink.task(0, events(range(ROWS)))
    files = inodes(staged_files(sink, staged))

    commit(log, sink.folder, 0, [staged], tenant=None, durability=Durability.WRITTEN)

    assert files <= inodes(segments(log))
