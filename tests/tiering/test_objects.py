"""The objects themselves, as anything but us reads them, in every kind of store."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strandline as sl
from strandline.io import OpenMode, SystemIo
from strandline.testing import FaultyIo
from strandline.tiering import open_store, sweep, tier
from strandline.tiering.object_store import ObstoreStore
from strandline.values import InvalidError, UnavailableError, ValueKind
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import filled, move, opened

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    return tmp_path / "cold"


def moved(url: str, store: str, **options: Any) -> list[sl.Record]:
    with sl.open(url) as log:
        records = filled(log)
        settings: dict[str, Any] = {"include_open": True, "local_bytes": 0, **options}
        tier(log, "t", store, **settings)
    return records


def test_an_object_is_parquet_with_the_columns_of_a_log(tmp_path: Path, cold: Path) -> None:
    records = moved(f"file:{tmp_path / 'log'}", f"file://{cold}", piece_records=15)
    first, second = sorted(cold.rglob("*.parquet"))

    table = pq.read_table(first)
    file = pq.ParquetFile(first)

    assert table.schema.names == [
        *("_partition", "_offset", "_row", "_timestamp", "_key", "_tenant", "_topic"),
        *("kind", "payload", "headers", "occurred_at"),
    ]
    assert table.schema.field("_timestamp").type == pa.timestamp("us", "UTC")
    assert table.column("_offset").to_pylist() == list(range(15))
    assert table.column("payload").to_pylist()[3] == '{"n":3}'
    assert pq.read_table(second).num_rows == 5
    column = file.metadata.row_group(0).column(1)
    assert column.compression == "ZSTD"
    assert (column.statistics.min, column.statistics.max) == (0, 14)
    about = msgspec.json.decode(file.metadata.metadata[b"strandline"])
    footer_bytes = file.metadata.serialized_size + len(b"size") + len(b"PAR1")
    assert about["digest"] == sha256(first.read_bytes()[:-footer_bytes]).hexdigest()
    assert (about["start"], about["end"], about["rows"], about["format"]) == (0, 15, 15, 2)
    assert about["topic"] == "t"
    assert about["epochs"] == [[0, 0]]
    assert len(records) == 20


@pytest.mark.slow
def test_duckdb_reads_the_tier(tmp_path: Path, cold: Path) -> None:
    moved(f"sqlite:{tmp_path / 'log'}", f"file://{cold}", piece_records=7)

    found = duckdb.sql(
        f"SELECT count(*), min(_offset), max(_offset), sum((payload->>'n')::int)"  # noqa: S608
        f" FROM read_parquet('{cold}/**/*.parquet')"
    ).fetchall()

    assert found == [(20, 0, 19, sum(range(20)))]


@pytest.mark.slow
def test_duckdb_distinguishes_the_topics_of_one_store(tmp_path: Path, cold: Path) -> None:
    with sl.open(f"sqlite:{tmp_path / 'log'}") as log:
        for topic, total in (("orders", 1), ("refunds", 5)):
            log.create_topic(topic)
            log.append_many(topic, [sl.Event("x", {"total": total}) for _ in range(10)])
            tier(log, topic, f"file://{cold}", include_open=True, local_bytes=0)
        assert "_topic" not in log.read_batches("orders", 0, 0).schema.names

    found = duckdb.sql(
        "SELECT _topic, sum((payload->>'total')::int)"  # noqa: S608
        f" FROM read_parquet('{cold}/**/*.parquet') GROUP BY _topic ORDER BY _topic"
    ).fetchall()

    assert found == [("orders", 10), ("refunds", 50)]


def test_objects_of_format_1_are_read_as_before(tmp_path: Path) -> None:
    """Without a column `_topic`, and with an object for each run of one schema."""
    with zipfile.ZipFile(Path(__file__).parent / "stores" / "format-1.zip") as stored:
        stored.extractall(tmp_path)
    objects = MemoryObjects()
    folder = tmp_path / "objects"
    for path in folder.rglob("*.parquet"):
        objects.objects[path.relative_to(folder).as_posix()] = path.read_bytes()
        assert b'"format":1' in path.read_bytes()

    with opened("sqlite", tmp_path, objects) as log:
        assert [record.payload["n"] for record in log.read("events", 0, 0)] == list(range(5))
        assert log.read_batches("events", 0, 0).schema.names[6:] == [
            *("kind", "payload", "headers", "occurred_at")
        ]
        assert not log.verify("proved")[0].findings
        scope = log.scope()
        assert [each.batch.to_pylist() for each in batches_of(scope.replay("typed", 0))] == [
            [{"a": 1, "x": None}, {"a": 2, "x": None}],
            [{"a": 2**40, "x": "q"}],
            [{"a": 3, "x": None}],
        ]
        whole = pa.table(log.read_batches("typed", 0, 0))
        assert whole.column("a").to_pylist() == [1, 2, 2**40, 3]
        (mine,) = log.read("batches", 0, 0)
        assert isinstance(mine.value, pa.RecordBatch)
        assert mine.value.to_pylist() == [{"_topic": "mine", "v": 1}]
        assert sweep(log, objects) == 0


def batches_of(delivered: Iterable[object]) -> list[sl.DeliveredBatch]:
    return [each for each in delivered if isinstance(each, sl.DeliveredBatch)]


def test_row_groups_end_with_a_record(
    tmp_path: Path, cold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.tiering.parquet.GROUP_ROWS", 4)
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("b", value_kind=ValueKind.BATCH)
        made = [pa.record_batch({"a": list(range(n))}) for n in (3, 3, 3, 1, 9, 1)]
        log.append_many("b", made)
        tier(log, "b", f"file://{cold}", include_open=True, local_bytes=0)
        (path,) = cold.rglob("*.parquet")
        file = pq.ParquetFile(path)

        groups = [file.read_row_group(n) for n in range(file.num_row_groups)]

        assert [group.column("_row")[0].as_py() for group in groups] == [0] * len(groups)
        assert len(groups) == 4
        for group in log.read_batches("b", 0, 0):
            assert group.column("_row")[0].as_py() == 0
        assert [record.value for record in log.read("b", 0, 0)] == made


def test_an_object_in_a_directory_is_synced_before_it_counts(tmp_path: Path) -> None:
    io = FaultyIo(SystemIo())
    store = ObstoreStore(f"file://{tmp_path}", io=io)

    store.put("a/b/object", b"content")

    assert store.get("a/b/object") == b"content"
    synced = [str(each.path) for each in io.operations if "sync" in each.kind]
    assert synced[0].endswith("a/b/object")
    assert len(synced) == 4


@pytest.mark.parametrize("put", ["put", "put_new"])
def test_an_object_may_be_deleted_before_it_is_synced(tmp_path: Path, put: str) -> None:
    class DeletingIo(SystemIo):
        def open(self, path: str, mode: OpenMode) -> int:
            Path(path).unlink()
            return super().open(path, mode)

    store = ObstoreStore(f"file://{tmp_path}", io=DeletingIo())

    getattr(store, put)("a/object", b"content")

    assert store.get("a/object") is None


def test_stores_put_get_list_and_delete(tmp_path: Path) -> None:
    for url in (f"file://{tmp_path / 'with space'}", "memory:///objects-of-this-test"):
        store = open_store(url)
        assert open_store(url) is store
        store.put("x/one", b"1")
        store.put("x/one", b"2")
        store.put("y/two", b"3")

        assert store.get("x/one") == b"2"
        assert store.get("x/none") is None
        assert store.get_end("x/one", 0) == b"2"
        assert store.get_end("y/none", 0) is None
        assert store.list("x") == ["x/one"]
        store.delete("x/one")
        store.delete("x/one")
        assert store.list("x") == []


@pytest.mark.parametrize(
    "url", ["", "cold", "file:cold", "file://host/x", "s3://name:secret@bucket", "what://x"]
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidError):
        open_store(url)


def test_a_store_that_cannot_be_reached_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((UnavailableError, InvalidError)):
        ObstoreStore(f"file://{tmp_path / 'file' / 'below'}").put("x", b"")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_tier_in_s3_reads_like_the_log(tmp_path: Path, bucket: str) -> None:
    url = f"file:{tmp_path / 'log'}"
    records = moved(url, bucket, piece_records=7)

    with sl.open(url) as log:
        assert list(log.read("t", 0, 0)) == records
        assert str(log.segments("t", 0)[0].location).startswith(bucket)
        open_store(bucket).put(f"{log.id}/orphan", b"?")
        assert sweep(log, bucket) == 1
        log.trim("t", 0, 20)

        assert open_store(bucket).list("") == []


@pytest.mark.slow
def test_without_the_extra_a_log_works_and_asking_for_the_tier_names_it(
    tmp_path: Path, cold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file:{tmp_path / 'log'}"
    moved(url, f"file://{cold}")
    script = f"""
import sys
sys.modules["obstore"] = None
import strandline as sl
with sl.open({url!r}) as log:
    log.append("t", sl.Event("k", 1))
    assert len(list(log.read("t", 0, 20))) == 1
    assert "pyarrow.parquet" not in sys.modules
    try:
        list(log.read("t", 0, 0))
    except sl.InvalidError as error:
        assert "strandline[tiering]" in str(error)
    else:
        raise AssertionError
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )

    assert done.returncode == 0, done.stderr


def test_batches_become_columns_and_only_those_that_parquet_would_change_are_packed(
    tmp_path: Path, cold: Path
) -> None:
    nan = float("nan")
    plain = pa.record_batch(
        {"a": [1, None, 3], "f": [nan, None, -0.0], "l": [[nan, None], None, [1.0]]}
    )
    odd = pa.record_batch([pa.array([(1, 2, 3)], pa.month_day_nano_interval())], names=["interval"])
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("b", value_kind=ValueKind.BATCH)
        log.append_many("b", [plain, plain, odd])
        tier(log, "b", f"file://{cold}", include_open=True, local_bytes=0)
        first, second = sorted(cold.rglob("*.parquet"))

        assert pq.read_table(first).column("a").to_pylist() == [1, None, 3] * 2
        assert pq.read_schema(second).names[-1] == "packed"
        assert log.evict("b", 0, 0) == 3
        found: list[Any] = [record.value for record in log.read("b", 0, 0)]
        assert [value.schema for value in found] == [plain.schema, plain.schema, odd.schema]
        assert found[2].equals(odd)
        assert str(found[1].to_pydict()) == str(plain.to_pydict())
        assert pa.table(log.read_batches("b", 0, 0)).num_rows == 7


LONG = "longer than what a view holds itself"
VIEWS = {
    "text": pa.array([LONG, None, "c"], pa.string_view()),
    "bytes": pa.array([LONG.encode(), b"b", None], pa.binary_view()),
    "list": pa.array([[LONG, None], None, []], pa.list_(pa.string_view())),
    "struct": pa.array([{"a": LONG}, {"a": None}, None], pa.struct([("a", pa.string_view())])),
    "map": pa.array([[("k", LONG)], [], None], pa.map_(pa.string_view(), pa.string_view())),
    "dictionary": pa.DictionaryArray.from_arrays([0, None, 0], pa.array([LONG], pa.string_view())),
    "runs": pa.RunEndEncodedArray.from_arrays([2, 3], [LONG, "b"]),
}


@pytest.mark.parametrize("is_proved", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_batches_of_types_that_arrow_cannot_take_from_are_read_from_the_tier(
    tmp_path: Path, name: str, *, is_proved: bool
) -> None:
    batch = pa.record_batch({"a": VIEWS[name]})
    wider = pa.record_batch({"a": VIEWS[name], "n": [1, 2, 3]})
    values = [batch, batch.slice(1, 2), wider, batch]
    with opened("file", tmp_path) as log:
        log.create_topic("t", value_kind=ValueKind.BATCH, proof=is_proved)
        log.append_many("t", values)
        move(log)

        assert log.evict("t", 0, 0) == len(values)
        found: list[Any] = [record.value for record in log.read("t", 0, 0)]
        assert [each.schema for each in found] == [each.schema for each in values]
        assert [each.to_pylist() for each in found] == [each.to_pylist() for each in values]
        assert next(log.subscribe("t", start=sl.EARLIEST)).offset == 0
        assert log.verify("t")[0].is_sound


@pytest.mark.slow
def test_a_store_without_credentials_raises_that_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of nothing else, obstore asks the machine that it runs on, and says that this fails."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")

    with pytest.raises(UnavailableError, match=r"no credentials.*AWS_ACCESS_KEY_ID"):
        ObstoreStore("s3://bucket/prefix").get("name")
