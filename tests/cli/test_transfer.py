"""Exported and imported again, a topic is the same."""

import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import strandline as sl
from strandline.testing import FakeClock
from strandline.values import Record, ValueKind
from tests.cli.program import environment, ran, run

SOURCE = "file:source"
BERLIN = pa.timestamp("us", "Europe/Berlin")
ODD = "\x00\x1b\u2028\U0001f41a\ufffd\u0301 'quoted' \"twice\" \\ {}"


def fill(kind: ValueKind) -> sl.Log:
    """Make a topic with everything that is hard to keep."""
    clock = FakeClock()
    log = sl.open(SOURCE, clock=clock)
    log.create_topic(
        *("odd",), partitions=3, value_kind=kind, retention_age_s=86_400 * 365 * 100, proof=True
    )
    for number, value in enumerate(values(kind)):
        clock.advance(0.000_001 * (number % 3))
        key = (None, ODD, "", "k")[number % 4]
        log.append_many(
            "odd",
            [value],
            keys=None if kind is ValueKind.EVENT else [key],
            partition=number % 2,
            tenant=(None, "acme")[number % 2],
        )
    log.append_many("odd", list(values(kind)), partition=0, tenant="globex")
    return log


def values(kind: ValueKind) -> Iterator[sl.Event | bytes | pa.RecordBatch]:
    if kind is ValueKind.BYTES:
        yield from (b"", b"\x00\xff\n", ODD.encode(), bytes(range(256)))
    elif kind is ValueKind.BATCH:
        schema = pa.schema([pa.field("a", pa.int8(), metadata={"m": "v"})], metadata={"x": "y"})
        yield pa.record_batch([pa.array([1, None], pa.int8())], schema=schema)
        yield pa.record_batch({"b": [[{"c": b"\x00"}], None], "t": [datetime(1, 1, 1), None]})
    else:
        first = datetime(1, 1, 1, tzinfo=UTC)
        yield sl.Event("a", 1.0, headers={"z": ODD, "a": ""}, key="")
        yield sl.Event(ODD.replace("\x00", "").replace("\x1b", "").replace("\u2028", ""), ODD)
        yield sl.Event("big", {"n": 2**63, "tiny": 1e-300, "neg": -0.0}, occurred_at=first)
        yield sl.Event("last", None, key=ODD, occurred_at=datetime(9999, 12, 31, tzinfo=UTC))
        yield sl.Event("deep", [[[[{}]]]])


def parts(log: sl.Log, topic: str = "odd") -> list[object]:
    return [
        (each.partition, each.offset, each.timestamp_us, each.key, each.tenant, exact(each))
        for partition in range(3)
        for each in log.read(topic, partition, log.marks(topic, partition).low)
    ]


def batches(delivered: Iterable[sl.DeliveredBatch | Record]) -> list[pa.RecordBatch]:
    return [each.batch for each in delivered if isinstance(each, sl.DeliveredBatch)]


def exact(record: Record) -> object:
    value = record.value
    if isinstance(value, sl.Event):
        return value.parts()
    if isinstance(value, pa.RecordBatch):
        return value.schema.serialize().to_pybytes(), value.serialize().to_pybytes()
    return value


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ValueKind))
@pytest.mark.parametrize("name", ["odd.parquet", "odd.jsonl"])
@pytest.mark.parametrize("target", ["file:target", "sqlite:target"])
def test_a_round_trip_is_exact(kind: ValueKind, name: str, target: str) -> None:
    with fill(kind) as source:
        ran("export", "odd", name, "--url", SOURCE)

        done = ran("import", name, "--url", target, "--json").document

        assert done["offsets_kept"]
        assert done["timestamps_kept"]
        with sl.open(target) as log:
            assert parts(log) == parts(source)
            assert log.describe_topic("odd").settings == source.describe_topic("odd").settings
            assert all(each.is_sound for each in log.verify("odd"))
        assert done["records"] == len(parts(source))


@pytest.mark.parametrize("name", ["typed.parquet", "typed.jsonl"])
@pytest.mark.parametrize("tenant", [None, "acme"])
def test_a_typed_topic_is_typed_again(name: str, tenant: str | None) -> None:
    first = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("at", BERLIN)])
    second = first.append(pa.field("paid", pa.decimal128(12, 2)))
    whose = () if tenant is None else ("--tenant", tenant)
    with sl.open(SOURCE) as source:
        scope = source.scope(tenant)
        scope.register("typed", first, metadata={"owner": "sales"})
        scope.publish("typed", pa.RecordBatch.from_pylist([{"id": 1, "at": None}], first))
        scope.evolve("typed", second)
        rows = [{"id": 2, "at": datetime(2026, 3, 1, tzinfo=UTC), "paid": Decimal("1.20")}]
        scope.publish("typed", pa.RecordBatch.from_pylist(rows, second))
        ran("export", "typed", name, "--url", SOURCE, *whose)

        ran("import", name, "--url", "sqlite:target")

        with sl.open("sqlite:target") as target:
            expected, found = (log.scope(tenant).topic("typed") for log in (source, target))
            assert found.versions == expected.versions
            assert found.metadata == expected.metadata
            for version in (1, 2):
                again = target.scope(tenant).replay("typed", 0, version=version)
                assert batches(again) == batches(scope.replay("typed", 0, version=version))


def test_a_file_that_is_no_export_makes_no_log(folder: Path) -> None:
    (folder / "no.jsonl").write_text("nothing\n")

    assert run("import", "no.jsonl").code == 2
    assert [each.name for each in folder.iterdir()] == ["no.jsonl"]


@pytest.mark.slow
def test_an_export_of_an_import_is_the_same_file(folder: Path) -> None:
    fill(ValueKind.EVENT).close()
    for name in ("a.parquet", "a.jsonl"):
        ran("export", "odd", name, "--url", SOURCE)
        ran("import", name, "--url", f"file:of-{name}")
        ran("export", "odd", f"again-{name}", "--url", f"file:of-{name}")

    lines, again = (
        (folder / name).read_bytes().splitlines()[1:] for name in ("a.jsonl", "again-a.jsonl")
    )
    assert lines == again


@pytest.mark.slow
def test_trimmed_records_leave_the_others_with_new_offsets_and_their_timestamps(
    orders: str,
) -> None:
    ran("trim", orders, "--before", "2")
    ran("export", orders, "orders.jsonl")

    done = ran("import", "orders.jsonl", "--topic", "again", "--json").document

    assert (done["records"], done["offsets_kept"], done["timestamps_kept"]) == (3, False, True)
    again = ran("read", "again", "--json").lines
    assert [each["timestamp"] for each in again] == [
        each["timestamp"] for each in ran("read", orders, "--json").lines
    ]
    assert [each["offset"] for each in again] == [0, 1, 2]


@pytest.mark.slow
def test_it_goes_through_a_pipe(orders: str) -> None:
    line = "strandline export orders - | strandline import - --url sqlite:./piped.db --json"
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", line],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )

    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stdout)["records"] == 5
    told = ran("export", orders, "-", "--json").stderr
    assert msgspec.json.decode(told) == {
        "topic": orders,
        "file": "-",
        "format": "jsonl",
        "records": 5,
    }


@pytest.mark.slow
def test_what_is_there_already_is_neither_replaced_nor_added_to(orders: str, folder: Path) -> None:
    (folder / "mine.parquet").write_text("mine")
    ran("export", orders, "orders.jsonl")

    assert run("export", orders, "mine.parquet").code == 2
    assert (folder / "mine.parquet").read_text() == "mine"
    assert run("import", "orders.jsonl").code == 3, "the topic has records"
    assert len(ran("read", orders, "--json").lines) == 5


@pytest.mark.parametrize("words", [("export", "orders"), ("verify", "--heads")])
def test_a_file_whose_name_no_file_has_is_refused(orders: str, words: tuple[str, ...]) -> None:
    done = run(*words, "a\0b.jsonl")

    assert done.code == 2
    assert "path of a file" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"strandline_export":1', '"strandline_export":2'),
        ('"payload":{"id":3,"total":12}', '"payload":{"id":3,"total":NaN}'),
        ('"kind":"order.paid"', '"kind":"order\\npaid"'),
        ('"headers":{}', '"headers":{"a":1}'),
        ('"partition":0', '"partition":7'),
        ('"offset":0,', ""),
    ],
)
def test_a_file_that_was_changed_is_refused(old: str, new: str, orders: str, folder: Path) -> None:
    ran("export", orders, "orders.jsonl")
    content = (folder / "orders.jsonl").read_text()
    assert old in content
    (folder / "changed.jsonl").write_text(content.replace(old, new, 1))

    done = run("import", "changed.jsonl", "--topic", "again")

    assert done.code == 2, done.stdout


@pytest.mark.slow
def test_parquet_of_another_program_is_refused(folder: Path, orders: str) -> None:
    from pyarrow import parquet  # noqa: PLC0415

    parquet.write_table(pa.table({"a": [1]}), folder / "other.parquet")
    (folder / "no.parquet").write_bytes(b"nothing")

    assert "strandline export" in run("import", "other.parquet").stderr
    assert run("import", "no.parquet").code == 2
    assert run("export", orders, "orders.csv").code == 2
    assert run("export", orders, "-", "--format", "parquet").code == 2


@pytest.mark.slow
def test_an_import_that_fails_at_its_first_record_leaves_no_topic(
    orders: str, folder: Path
) -> None:
    ran("export", orders, "orders.jsonl")
    header, first, *_ = (folder / "orders.jsonl").read_text().splitlines(keepends=True)
    (folder / "half.jsonl").write_text(header + first[: len(first) // 2])
    ran("create", "empty")

    assert run("import", "half.jsonl", "--topic", "again").code == 2
    assert run("import", "half.jsonl", "--topic", "empty").code == 2

    topics = [each["name"] for each in ran("topics", "--json").document["topics"]]
    assert sorted(topics) == sorted([orders, "empty"])


@pytest.mark.slow
def test_an_import_that_fails_in_the_middle_says_what_is_stored(orders: str, folder: Path) -> None:
    ran("export", orders, "orders.jsonl")
    content = (folder / "orders.jsonl").read_text()
    (folder / "half.jsonl").write_text(content[:-20])

    failed = run("import", "half.jsonl", "--topic", "again")

    stored = ran("describe", "again", "--json").document["records"]
    assert failed.code == 2
    assert stored > 0
    assert f"{stored} records are in again already, drop it" in failed.stderr


def test_answers_escape_what_a_terminal_would_obey(orders: str) -> None:
    """Names of files, too: a log may come from anywhere."""
    evil = "file:x\x1b[1m\x9b31m"

    copied = ran("copy", "file:.strandline/events", evil).stdout

    assert copied == (
        "file:.strandline/events -> file:x\\x1b[1m\\x9b31m: 5 records copied, all compared\n"
    )
    assert ran("copy", "file:.strandline/events", evil, "--json").document["target"] == evil
