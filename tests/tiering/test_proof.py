"""A topic with a proof keeps it while its records move to the tier."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strandline as sl
from strandline.log.chain import Chain
from strandline.log.history import EventBody
from strandline.stores.sqlite.proving import Proving
from strandline.tiering import copying, parquet, tier
from strandline.values import Durability, ValueKind
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import BACKENDS, move, opened

#: Changes the rows of an object that begins at 7, before it is encoded.
Forge = Callable[[pa.Table, Any], tuple[pa.Table, Any]]


def proved(log: sl.Log, count: int = 20) -> list[sl.ProofHead]:
    """Append events to a topic with a proof, and return a head after every five."""
    log.create_topic("t", proof=True)
    heads = []
    for at in range(0, count, 5):
        values = [sl.Event("k", {"n": n}, key=f"k{n % 3}") for n in range(at, at + 5)]
        log.append_many("t", values)
        heads.append(log.proof_head("t", 0))
    return heads


def forged(monkeypatch: pytest.MonkeyPatch, forge: Forge) -> None:
    """Let what is copied differ from what the log has, in ways that no digest of objects shows."""
    honest: Any = parquet.encode

    def encode(batches: Any, about: Any) -> bytes:
        table = pa.Table.from_batches(batches)
        if about.start == 7:
            table, about = forge(table, about)
        content: bytes = honest(table.to_batches(), about)
        return content

    monkeypatch.setattr(copying, "encode", encode)


def with_cell(table: pa.Table, name: str, row: int, value: object) -> pa.Table:
    column = table.column(name).to_pylist()
    column[row] = value
    index = table.schema.get_field_index(name)
    field = table.schema.field(name)
    return table.set_column(index, field, pa.array(column, field.type))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_history_is_verified_across_hot_and_cold(backend: str, tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        heads = proved(log)
        records = list(log.read("t", 0, 0))

        report = move(log)

        assert report.evicted_records == 20
        assert list(log.read("t", 0, 0)) == records
        (cold,) = log.verify("t", expected=heads)
        assert (cold.start, cold.end, cold.records, cold.findings) == (0, 20, 20, ())
        assert cold.is_proved
        assert cold.head == log.proof_head("t", 0) == heads[-1]
        log.append_many("t", [sl.Event("k", n) for n in range(20, 26)])
        heads.append(log.proof_head("t", 0))
        (both,) = log.verify("t", expected=heads)
        assert (both.records, both.findings, both.head) == (26, (), heads[-1])
        move(log)
        assert log.verify("t", expected=heads)[0].is_sound


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_the_chain_continues_after_everything_was_evicted_and_the_log_opened_again(
    backend: str, tmp_path: Path
) -> None:
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        heads = proved(log)
        move(log)

    with opened(backend, tmp_path, objects) as log:
        log.append("t", sl.Event("k", 20), durability=Durability.DURABLE)
        heads.append(log.proof_head("t", 0))
    with opened(backend, tmp_path, objects) as log:
        (report,) = log.verify("t", expected=heads)

        assert (report.records, report.findings, report.head) == (21, (), heads[-1])


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trim_within_the_copies_keeps_the_proof(backend: str, tmp_path: Path) -> None:
    with opened(backend, tmp_path) as log:
        heads = proved(log)
        move(log, piece_records=7)
        log.append("t", sl.Event("k", 20))

        for low in (3, 7, 9, 20, 21):
            log.trim("t", 0, low)

            kept = [head for head in heads if head.offset >= low]
            (report,) = log.verify("t", expected=kept)
            assert (report.start, report.records, report.findings) == (low, 21 - low, ())
            (report,) = log.verify("t", expected=heads)
            assert len(report.findings) == len(heads) - len(kept)


def test_a_reader_of_the_objects_can_follow_the_chain_without_us(tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        heads = proved(log)
        tier(log, "t", f"file://{cold}", piece_records=7, include_open=True, local_bytes=0)

    value = None
    for path in sorted(cold.rglob("*.parquet")):
        about = msgspec.json.decode(pq.read_metadata(path).metadata[b"strandline"])
        before, after = map(bytes.fromhex, about["chain"])
        assert value in (None, before)
        value = before
        table = pq.read_table(path)
        assert table.schema.names[:9] == [
            *("_partition", "_offset", "_row", "_timestamp", "_key", "_tenant"),
            *("_topic", "_digest", "kind"),
        ]
        for digest in table.column("_digest").to_pylist():
            value = sha256(value + digest).digest()
        assert value == after
    assert value == heads[-1].digest


def test_a_topic_without_a_proof_has_no_digests(tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("t")
        log.append("t", sl.Event("k", 1))
        tier(log, "t", f"file://{cold}", include_open=True)

    (path,) = cold.rglob("*.parquet")

    assert "_digest" not in pq.read_schema(path).names


def changed_row(table: pa.Table, about: Any) -> tuple[pa.Table, Any]:
    return with_cell(table, "payload", 2, '{"n":900}'), about


def swapped_digests(table: pa.Table, about: Any) -> tuple[pa.Table, Any]:
    digests = table.column("_digest").to_pylist()
    table = with_cell(table, "_digest", 2, digests[4])
    return with_cell(table, "_digest", 4, digests[2]), about


def changed_row_and_digest(table: pa.Table, about: Any) -> tuple[pa.Table, Any]:
    table = changed_row(table, about)[0]
    row = table.slice(2, 1).to_pylist()[0]
    chain = Chain(about.log_id, about.topic_id, about.partition, about.value_kind)
    body = EventBody(row["kind"], row["payload"].encode(), b"{}", None)
    stamp = table.column("_timestamp").cast("int64")[2].as_py()
    digest = chain.digest(row["_offset"], stamp, row["_key"], row["_tenant"], body)
    return with_cell(table, "_digest", 2, digest), about


def changed_together(table: pa.Table, about: Any) -> tuple[pa.Table, Any]:
    """Change a record, its digest and the value after the object: right in itself."""
    table = changed_row_and_digest(table, about)[0]
    value = bytes.fromhex(about.chain[0])
    for digest in table.column("_digest").to_pylist():
        value = sha256(value + digest).digest()
    return table, msgspec.structs.replace(about, chain=(about.chain[0], value.hex()))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("forge", "offsets"),
    [
        (changed_row, [9]),
        (swapped_digests, [9, 11]),
        (changed_row_and_digest, [7]),
        (changed_together, [14]),
    ],
)
def test_a_forged_copy_is_found(
    backend: str,
    forge: Forge,
    offsets: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forged(monkeypatch, forge)
    with opened(backend, tmp_path) as log:
        heads = proved(log)
        move(log)

        (report,) = log.verify("t")

        assert [finding.offset for finding in report.findings] == offsets
        assert report.head is None
        assert not log.verify("t", expected=heads)[0].is_sound


def test_a_forged_last_copy_is_found_by_what_the_log_itself_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged(monkeypatch, changed_together)
    with opened("file", tmp_path) as log:
        proved(log, 10)
        move(log)

        (report,) = log.verify("t")

        assert [finding.offset for finding in report.findings] == [10]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_of_a_proof_are_columns_where_they_come_back_byte_for_byte(
    backend: str, tmp_path: Path
) -> None:
    objects = MemoryObjects()
    plain = pa.record_batch({"a": [1, None, 3], "s": ["x", "", None], "f": [0.5, None, 2.0]})
    odd = pa.record_batch([pa.array([(1, 2, 3)], pa.month_day_nano_interval())], names=["interval"])
    named = pa.record_batch({"_digest": [b"mine"], "n": [1]})
    with opened(backend, tmp_path, objects) as log:
        log.create_topic("t", value_kind=ValueKind.BATCH, proof=True)
        log.append_many("t", [plain, plain.slice(1), odd, named])
        head = log.proof_head("t", 0)

        move(log)

        tables = [
            pq.read_table(pa.BufferReader(objects.objects[n])) for n in sorted(objects.objects)
        ]
        assert [table.schema.names[-1] for table in tables] == ["f", "packed", "packed"]
        assert tables[0].column("a").to_pylist() == [1, None, 3, None, 3]
        assert len(set(tables[0].column("_digest").to_pylist())) == 2
        (report,) = log.verify("t", expected=[head])
        assert (report.records, report.findings, report.head) == (4, (), head)
        values = [record.value for record in log.read("t", 0, 0)]
        assert values == [plain, plain.slice(1), odd, named]
        assert "_digest" not in pa.table(log.read_batches("t", 0, 0, 3)).schema.names


@pytest.mark.parametrize("name", ["packed", "_digest", "_topic", "_schema_id"])
def test_a_column_may_be_named_as_one_of_the_tier(name: str, tmp_path: Path) -> None:
    batch = pa.record_batch({name: [1, 2]})
    with opened("memory", tmp_path) as log:
        log.create_topic("t", value_kind=ValueKind.BATCH)
        log.append("t", batch)

        move(log)

        assert log.evict("t", 0, 0) == 1
        assert next(log.read("t", 0, 0)).value == batch
        assert pa.table(log.read_batches("t", 0, 0)).column(name).to_pylist() == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_found_while_records_are_written_moved_and_trimmed(
    backend: str, tmp_path: Path
) -> None:
    with opened(backend, tmp_path) as log:
        log.create_topic("t", proof=True)
        done = threading.Event()

        def write() -> None:
            for at in range(0, 1500, 10):
                log.append_many("t", [sl.Event("k", n) for n in range(at, at + 10)])

        def shift() -> None:
            while not done.is_set():
                move(log, piece_records=40)
                log.trim("t", 0, log.marks("t", 0).high // 3)

        def verify() -> int:
            count = 0
            while not done.is_set():
                (report,) = log.verify("t")
                assert report.findings == ()
                count += 1
            return count

        with ThreadPoolExecutor(3) as pool:
            others: list[Future[Any]] = [pool.submit(shift), pool.submit(verify)]
            pool.submit(write).result(120)
            done.set()
            for each in others:
                each.result(60)

        move(log)
        (report,) = log.verify("t")
        assert (report.end, report.findings) == (1500, ())


def test_verify_in_sqlite_looks_again_if_it_is_overtaken_by_an_eviction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened("sqlite", tmp_path) as log:
        heads = proved(log)
        values: Any = vars(Proving)["_values"]

        def overtaken(proving: Any, page: Any) -> Any:
            monkeypatch.setattr(Proving, "_values", values)
            assert move(log).evicted_records == 20
            return values(proving, page)

        monkeypatch.setattr(Proving, "_values", overtaken)
        (report,) = log.verify("t", expected=heads)

        assert (report.records, report.findings, report.head) == (20, (), heads[-1])
