"""A copy of a whole log: a prefix of each partition, recognised as a copy, able to continue."""

import errno
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log.copies import CopiedPartition
from strandline.stores.files.copying import copy_file_log
from strandline.stores.sqlite.copying import copy_sqlite_log
from strandline.testing import FaultyIo, Operation, OperationKind
from strandline.tiering import tier
from strandline.values import Record, ValueKind

ROOT = Path(__file__).parents[2]
COPY: dict[str, Callable[..., list[CopiedPartition]]] = {
    "file": copy_file_log,
    "sqlite": copy_sqlite_log,
}
RECORDS = 121
OPENING: tuple[OperationKind, ...] = ("open",)


#: Segments are sealed in files alone.
MADE = [
    *(("file", made) for made in ("plain", "proved", "sealed", "proved sealed")),
    *(("sqlite", made) for made in ("plain", "proved")),
]


@pytest.fixture(params=sorted(COPY))
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(scheme: str, tmp_path: Path) -> Iterator[sl.Log]:
    with sl.open(f"{scheme}:{tmp_path / 'log'}") as log:
        yield log


def copied(scheme: str, folder: Path, name: str = "copy", **options: object) -> sl.Log:
    COPY[scheme](str(folder / "log"), str(folder / name), **options)
    return sl.open(f"{scheme}:{folder / name}")


def fill(log: sl.Log, **settings: bool) -> UUID:
    topic = log.create_topic("orders", **settings)  # type: ignore[arg-type] # Booleans alone.
    many = [sl.Event("many", {"n": n}, key=f"k{n}") for n in range(100)]
    log.append_many(topic, many, tenant="acme")
    for number in range(100, RECORDS - 1):
        event = sl.Event("one", number, headers={"n": str(number)})
        log.append(topic, event, producer="web", sequence=number)
    log.append(topic, sl.Event("last"), idempotency_key="once")
    return topic.id


def parts(records: Iterator[Record]) -> list[object]:
    return [
        (each.offset, each.timestamp_us, each.key, each.tenant, each.event.parts())
        for each in records
    ]


@pytest.mark.slow
@pytest.mark.parametrize("end", [0, 1, 50, 100, 111, RECORDS - 1, RECORDS])
@pytest.mark.parametrize(("scheme", "made"), MADE, indirect=["scheme"])
def test_a_copy_up_to_an_offset_is_that_prefix_exactly(
    source: sl.Log, scheme: str, tmp_path: Path, end: int, made: str
) -> None:
    topic_id = fill(source, proof="proved" in made)
    if "sealed" in made:
        source.seal("orders")

    with copied(scheme, tmp_path, ends={(topic_id, 0): end}) as copy:
        assert copy.id == source.id
        assert copy.marks("orders", 0).high == copy.marks("orders", 0).durable == end
        assert parts(copy.read("orders", 0, 0)) == parts(source.read("orders", 0, 0, end))
        assert all(report.is_sound for report in copy.verify("orders"))
        sizes = [len(each.payload_json) for each in map(event_of, copy.read("orders", 0, 0))]
        assert (copy.describe_topic("orders").size_bytes == 0) == (not sizes)

        copy.append("orders", sl.Event("after"))
        assert copy.marks("orders", 0).high == end + 1
        assert all(report.is_sound for report in copy.verify("orders"))


def event_of(record: Record) -> sl.Event:
    return record.event


@pytest.mark.parametrize("kind", [ValueKind.BYTES, ValueKind.BATCH])
def test_values_of_every_kind_are_cut_within_an_append(
    source: sl.Log, scheme: str, tmp_path: Path, kind: ValueKind
) -> None:
    topic = source.create_topic("raw", value_kind=kind)
    plain = [bytes([n, 0, 255]) for n in range(70)]
    batches = [pa.record_batch({"n": [n, n + 1]}) for n in range(70)]
    source.append_many("raw", plain if kind is ValueKind.BYTES else batches)

    with copied(scheme, tmp_path, ends={(topic.id, 0): 33}) as copy:
        before = [each.value for each in source.read("raw", 0, 0, 33)]
        assert [each.value for each in copy.read("raw", 0, 0)] == before
        assert copy.describe_topic("raw").size_bytes > 0


def test_what_points_beyond_a_copy_is_recognised_before_it_is_written_to(
    source: sl.Log, scheme: str, tmp_path: Path
) -> None:
    topic_id = fill(source)
    source.ack("orders", "behind", 0, 10)
    source.ack("orders", "ahead", 0, 90)
    beyond, within = source.position("orders", 0, 90), source.position("orders", 0, 40)

    copied(scheme, tmp_path, ends={(topic_id, 0): 50}).close()
    with sl.open(f"{scheme}:{tmp_path / 'copy'}", mode="read") as copy:
        assert copy.resolve(within) == 40
        assert copy.cursor("orders", "behind", 0) == 10
        with pytest.raises(sl.DivergedError) as at_position:
            copy.resolve(beyond)
        with pytest.raises(sl.DivergedError) as at_cursor:
            copy.cursor("orders", "ahead", 0)
    assert at_position.value.diverged_at == at_cursor.value.diverged_at == 50


def test_what_was_written_after_a_copy_makes_the_original_differ_from_it(
    source: sl.Log, scheme: str, tmp_path: Path
) -> None:
    fill(source)
    with copied(scheme, tmp_path) as copy:
        source.append("orders", sl.Event("here"))
        copy.append("orders", sl.Event("there"))
        position = source.position("orders", 0, RECORDS + 1)

        with pytest.raises(sl.DivergedError) as caught:
            copy.resolve(position)
    assert caught.value.diverged_at == RECORDS


def test_writes_are_recognised_in_a_copy_as_far_as_it_goes(
    source: sl.Log, scheme: str, tmp_path: Path
) -> None:
    topic_id = fill(source)

    with copied(scheme, tmp_path, "whole") as whole:
        assert whole.append("orders", sl.Event("last"), idempotency_key="once").is_repeat
        assert whole.append("orders", sl.Event("x"), producer="web", sequence=110).is_repeat
    with copied(scheme, tmp_path, "cut", ends={(topic_id, 0): 111}) as cut:
        assert cut.append("orders", sl.Event("x"), producer="web", sequence=110).is_repeat
        assert not cut.append("orders", sl.Event("x"), producer="web", sequence=111).is_repeat
        assert not cut.append("orders", sl.Event("last"), idempotency_key="once").is_repeat


def test_trimmed_records_stay_trimmed(source: sl.Log, scheme: str, tmp_path: Path) -> None:
    topic_id = fill(source, proof=True)
    source.trim("orders", 0, 60)

    with copied(scheme, tmp_path) as copy:
        assert copy.marks("orders", 0).low == 60
        assert all(report.is_sound for report in copy.verify("orders"))
    with copied(scheme, tmp_path, "empty", ends={(topic_id, 0): 60}) as empty:
        assert list(empty.read("orders", 0, 60)) == []
        assert empty.append("orders", sl.Event("on")).offset == 60
    with pytest.raises(sl.TrimmedError):
        copied(scheme, tmp_path, "before", ends={(topic_id, 0): 59})
    assert not (tmp_path / "before").exists()


@pytest.mark.parametrize("proof", [False, True])
def test_records_that_were_tiered_are_read_through_a_copy_as_before(
    source: sl.Log, scheme: str, tmp_path: Path, proof: bool
) -> None:
    topic_id = fill(source, proof=proof)
    tier(source, "orders", f"file://{tmp_path / 'cold'}", include_open=True, local_bytes=0)
    fill_more(source)

    with copied(scheme, tmp_path) as copy:
        assert parts(copy.read("orders", 0, 0)) == parts(source.read("orders", 0, 0))
        assert all(report.is_sound for report in copy.verify("orders"))
    if proof:
        with pytest.raises(sl.InvalidError, match="evicted"):
            copied(scheme, tmp_path, "before", ends={(topic_id, 0): RECORDS - 9})
        return
    with copied(scheme, tmp_path, "before", ends={(topic_id, 0): RECORDS - 9}) as before:
        there = parts(source.read("orders", 0, 0, RECORDS - 9))
        assert parts(before.read("orders", 0, 0)) == there
        assert before.append("orders", sl.Event("on")).offset == RECORDS - 9
        assert [each.kind for each in before.read("orders", 0, RECORDS - 9)] == ["on"]


def test_a_copy_is_refused_where_something_is_and_for_what_there_is_not(
    source: sl.Log, scheme: str, tmp_path: Path
) -> None:
    topic_id = fill(source)
    (tmp_path / "taken").write_text("mine")

    for name, ends in (
        ("taken", {}),
        ("beyond", {(topic_id, 0): RECORDS + 1}),
        ("no-partition", {(topic_id, 1): 0}),
    ):
        with pytest.raises(sl.InvalidError):
            COPY[scheme](str(tmp_path / "log"), str(tmp_path / name), ends=ends)

    assert (tmp_path / "taken").read_text() == "mine"
    assert not [path.name for path in tmp_path.iterdir() if "partial" in path.name]


def test_topics_of_tenants_and_internal_ones_are_copied_and_dropped_ones_are_not(
    source: sl.Log, scheme: str, tmp_path: Path
) -> None:
    source.create_topic("orders", tenant="acme")
    source.append(source.topic("orders", tenant="acme"), sl.Event("theirs"))
    source.create_topic("__strandline.notes", internal=True)
    source.create_topic("gone")
    source.drop_topic("gone")

    with copied(scheme, tmp_path) as copy:
        [theirs] = copy.topics(tenant="acme")
        assert [each.kind for each in copy.read(theirs, 0, 0)] == ["theirs"]
        assert [each.name for each in copy.topics(internal=True)] == ["__strandline.notes"]
        assert copy.topics() == []


@pytest.mark.slow
def test_a_copy_made_while_a_process_writes_is_a_prefix_of_what_it_wrote(
    source: sl.Log, scheme: str, tmp_path: Path
) -> None:
    source.create_topic("orders", partitions=2)
    command = [sys.executable, str(ROOT / "tests/log/copy_appender.py")]
    writer = subprocess.Popen(
        [*command, f"{scheme}:{tmp_path / 'log'}"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        with source.subscribe("orders") as arriving:
            for number in range(5):
                while next(arriving).offset < 60 * number:
                    pass
                check_copy(scheme, tmp_path, f"copy-{number}")
    finally:
        writer.kill()
        writer.wait()
        assert writer.stdout is not None
        writer.stdout.close()

    for number in range(5):
        with sl.open(f"{scheme}:{tmp_path / f'copy-{number}'}", mode="read") as copy:
            for partition in (0, 1):
                there = parts(copy.read("orders", partition, 0))
                assert there == parts(source.read("orders", partition, 0))[: len(there)]


def check_copy(scheme: str, folder: Path, name: str) -> None:
    with copied(scheme, folder, name) as copy:
        assert all(report.is_sound for report in copy.verify("orders"))
        high = copy.marks("orders", 0).high
        # Acks lie before the records in the order of copying, so none is ahead of them.
        assert (copy.cursor("orders", "mailer", 0) or 0) <= high


@pytest.mark.parametrize("change", ["seal", "trim", "append", "ack", "drop"])
def test_a_partition_that_changes_while_it_is_copied_is_copied_as_it_is_then(
    tmp_path: Path, change: str
) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as source:
        fill(source)
        source.seal("orders")
        fill_more(source)
        io = FaultyIo(SystemIo())
        changes: dict[str, Callable[[], object]] = {
            "seal": lambda: source.seal("orders"),
            "trim": lambda: source.trim("orders", 0, RECORDS),
            "append": lambda: fill_more(source),
            "ack": lambda: fill_more(source, ack=True),
            "drop": lambda: source.drop_topic("orders"),
        }
        done: list[str] = []

        def meddle(operation: Operation) -> None:
            if operation.path.endswith(".segment") and not done:
                done.append(change)
                changes[change]()

        io.before(1, meddle, kinds=OPENING, forever=True)
        copy_file_log(str(tmp_path / "log"), str(tmp_path / "copy"), io=io)

        assert done
        with sl.open(f"file:{tmp_path / 'copy'}", mode="read") as copy:
            if change == "drop":
                assert copy.topics() == []
                return
            low, high = copy.marks("orders", 0).low, copy.marks("orders", 0).high
            assert (low, high) == (RECORDS if change == "trim" else 0, 2 * RECORDS)
            assert parts(copy.read("orders", 0, low)) == parts(source.read("orders", 0, low, high))
            assert copy.cursor("orders", "mailer", 0) is None, "no cursor is ahead of its records"
            names = {path.name for path in (tmp_path / "copy").rglob("*.segment")}
            assert len(names) == len(copy.segments("orders", 0)) + 1, "no remains but the new one"


def fill_more(log: sl.Log, *, ack: bool = False) -> None:
    for number in range(RECORDS):
        log.append("orders", sl.Event("more", number))
    if ack:
        log.ack("orders", "mailer", 0, log.marks("orders", 0).high)


@pytest.mark.slow
def test_a_copy_in_which_any_call_fails_leaves_nothing_or_is_whole(
    source: sl.Log, scheme: str, tmp_path: Path
) -> None:
    topic_id = fill(source)
    for nth in range(1, 1000):
        target = tmp_path / f"copy-{nth}"
        io = FaultyIo(SystemIo())
        fault = io.fail(nth, errno.EIO)

        try:
            COPY[scheme](str(tmp_path / "log"), str(target), ends={(topic_id, 0): 110}, io=io)
        except sl.StrandlineError:
            assert fault.fired
            assert not target.exists()
        else:
            with sl.open(f"{scheme}:{target}", mode="read") as copy:
                assert copy.marks("orders", 0).high == 110
        if not fault.fired:
            return
    pytest.fail("the copy never came to its end")
