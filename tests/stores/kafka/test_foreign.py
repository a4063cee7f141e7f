"""Topics that other programs write, read with a log. See design 0131."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import strandline as sl
from strandline.cli.app import app
from strandline.tiering import tier
from strandline.triggers import Triggers
from strandline.values import SourceMessage
from tests.stores.engine_server import NoServerError
from tests.stores.kafka.foreign import ForeignTopic
from tests.stores.kafka.server import KafkaServer
from tests.views.accounts import Accounts

pytestmark = [pytest.mark.slow, pytest.mark.heavy]

PATIENCE_S = 30.0


@pytest.fixture
def log(new_url: Callable[[], str]) -> Iterator[sl.Log]:
    with sl.open(new_url()) as opened:
        yield opened


@pytest.fixture
def foreign(server: KafkaServer) -> ForeignTopic:
    return ForeignTopic(server)


def with_holes(foreign: ForeignTopic) -> list[int]:
    """Write messages with holes between and behind them; return the offsets of those that count."""
    foreign.transact([b"0", b"1"], commit=True)  # And a marker at 2.
    foreign.transact([b"3", b"4"], commit=False)  # And a marker at 5.
    foreign.send([b"6"])
    foreign.transact([b"7"], commit=True)  # And a marker at 8.
    return [0, 1, 6, 7]


def offsets(records: Iterator[sl.Record]) -> list[int]:
    return [record.offset for record in records]


def test_a_message_has_value_key_headers_and_time(log: sl.Log, foreign: ForeignTopic) -> None:
    headers: list[tuple[str, bytes | None]] = [
        ("trace", b"\x00\x01"),
        ("trace", b"2"),
        ("no", None),
    ]
    foreign.send([b"\xff{}"], key=b"alice", headers=headers, time_ms=1_700_000_000_123)
    foreign.send([None], key=b"\xff\x01")
    log.create_topic("payments", source=foreign.name)

    first, second = log.read("payments", 0, 0)

    assert (first.offset, first.key, first.value) == (0, "alice", b"\xff{}")
    assert first.timestamp_us == 1_700_000_000_123_000
    assert isinstance(first.value, SourceMessage)
    assert (first.value.key, first.value.headers) == (b"alice", tuple(headers))
    assert not first.value.is_null
    assert isinstance(second.value, SourceMessage)
    assert second.value.is_null
    assert (second.key, second.value, second.value.key) == ("0xff01", b"", b"\xff\x01")


def test_the_description_says_what_it_is(log: sl.Log, foreign: ForeignTopic) -> None:
    foreign.send([b"a"])
    log.create_topic("payments", source=foreign.name)

    found = log.describe_topic("payments")

    assert found.settings.source == foreign.name
    assert found.settings.value_kind is sl.ValueKind.BYTES
    assert found.marks[0].high == 1
    assert [each.name for each in log.topics()] == ["payments"]
    assert log.describe().topics == 1


def test_holes_are_left_out_and_aborted_messages_never_come(
    log: sl.Log, foreign: ForeignTopic
) -> None:
    wanted = with_holes(foreign)
    log.create_topic("payments", source=foreign.name)

    assert offsets(log.read("payments", 0, 0)) == wanted
    assert [record.value for record in log.read("payments", 0, 2)] == [b"6", b"7"]
    assert offsets(log.read("payments", 0, 2, 7)) == [6]
    assert offsets(log.read("payments", 0, 0, records_max=3)) == wanted[:3]
    assert offsets(log.read("payments", 0, 0, bytes_max=2)) == wanted[:2]
    assert offsets(log.read("payments", 0, 8)) == []
    assert log.marks("payments", 0).high == 9
    with pytest.raises(sl.InvalidError, match="beyond the end"):
        log.read("payments", 0, 10)


def test_an_open_transaction_is_not_read(log: sl.Log, foreign: ForeignTopic) -> None:
    foreign.send([b"before"])
    writer = foreign.transaction()
    writer.produce(foreign.name, b"open", partition=0)
    writer.flush(PATIENCE_S)
    foreign.send([b"behind"])
    log.create_topic("payments", source=foreign.name)

    assert [record.value for record in log.read("payments", 0, 0)] == [b"before"]
    assert log.marks("payments", 0).high == 1

    writer.commit_transaction(PATIENCE_S)

    with log.subscribe("payments") as records:
        found = [records.next(PATIENCE_S) for _ in range(3)]
    assert [each.value for each in found if each] == [b"before", b"open", b"behind"]


CLEANER = """
log.cleaner.enable=true
log.cleaner.backoff.ms=50
log.cleaner.dedupe.buffer.size=4194304
"""


def test_a_compacted_topic_is_read() -> None:
    with closing(_cleaning_server()) as server, sl.open(server.url()) as log:
        foreign = ForeignTopic(
            server,
            config={
                "cleanup.policy": "compact",
                "segment.ms": "100",
                "min.cleanable.dirty.ratio": "0.01",
                "max.compaction.lag.ms": "100",
            },
        )
        for number in range(20):
            foreign.send([str(number).encode()], key=b"same")
        log.create_topic("payments", source=foreign.name)
        found: list[sl.Record] = []
        with log.consumer("payments", "billing") as consumer:
            nacked = consumer.next(PATIENCE_S)
            assert nacked is not None
            consumer.nack(nacked)
            while nacked.record.offset in offsets(log.read("payments", 0, 0)):
                # A segment ends with the next message.
                foreign.send([b"20"], key=b"same")
            foreign.send([b"last"], key=b"other")

            while not found or found[-1].value != b"last":
                delivery = consumer.next(PATIENCE_S)
                assert delivery is not None
                found.append(delivery.record)
                consumer.ack(delivery)

        end = log.marks("payments", 0).high
        assert log.cursor("payments", "billing", 0) == end
        assert len(offsets(log.read("payments", 0, 0))) < end

    rising = [each.offset for each in found]
    assert nacked.record.offset not in rising
    assert rising == sorted(set(rising))


def _cleaning_server() -> KafkaServer:
    try:
        return KafkaServer(more=CLEANER)
    except NoServerError as error:
        pytest.skip(f"Kafka cannot be started: {error}")


def test_a_subscription_continues_into_the_tail(log: sl.Log, foreign: ForeignTopic) -> None:
    wanted = with_holes(foreign)
    log.create_topic("payments", source=foreign.name)

    with log.subscribe("payments", markers=True) as records:
        found = [records.next(PATIENCE_S) for _ in range(5)]
        assert [each.offset for each in found if isinstance(each, sl.Record)] == wanted
        assert isinstance(found[4], sl.CaughtUp)
        assert records.next(0) is None

        foreign.transact([b"aborted"], commit=False)
        foreign.transact([b"live"], commit=True)

        live = records.next(PATIENCE_S)
        assert isinstance(live, sl.Record)
        assert (live.offset, live.value) == (11, b"live")


def test_a_consumer_passes_over_holes_and_comes_to_the_end(
    log: sl.Log, foreign: ForeignTopic
) -> None:
    wanted = with_holes(foreign)
    log.create_topic("payments", source=foreign.name)
    with log.consumer("payments", "billing") as consumer:
        assert [lag.lag for lag in log.consumers("payments")] == [9]
        for offset in wanted:
            delivery = consumer.next(PATIENCE_S)
            assert delivery is not None
            assert delivery.record.offset == offset
            consumer.ack(delivery)
        assert consumer.next(1.5) is None

    assert log.cursor("payments", "billing", 0) == 9
    assert [lag.lag for lag in log.consumers("payments")] == [0]

    foreign.send([b"later"])
    with log.consumer("payments", "billing") as consumer:
        delivery = consumer.next(PATIENCE_S)
        assert delivery is not None
        assert delivery.record.value == b"later"


def test_a_nacked_message_comes_again_and_is_dead_lettered(
    log: sl.Log, foreign: ForeignTopic
) -> None:
    with_holes(foreign)
    log.create_topic("payments", source=foreign.name)
    with log.consumer("payments", "billing", deliveries_max=2) as consumer:
        for _ in range(2):
            delivery = consumer.next(PATIENCE_S)
            assert delivery is not None
            assert delivery.record.offset == 0
            consumer.nack(delivery)
        following = consumer.next(PATIENCE_S)
        assert following is not None
        assert following.record.offset == 1
        letters = log.topics(internal=True)

    assert any("dead" in each.name for each in letters)


def test_a_fetch_of_many_has_no_holes(log: sl.Log, foreign: ForeignTopic) -> None:
    wanted = with_holes(foreign)
    log.create_topic("payments", source=foreign.name)
    with log.consumer("payments", "billing") as consumer:
        found: list[sl.Delivery] = []
        while len(found) < len(wanted):
            found += consumer.fetch(10, timeout_s=PATIENCE_S)
        consumer.ack(found)

    assert [each.record.offset for each in found] == wanted


def test_members_of_a_group_share_partitions_and_find_added_ones(
    server: KafkaServer, log: sl.Log
) -> None:
    foreign = ForeignTopic(server, partitions=2)
    log.create_topic("payments", source=foreign.name)
    with log.consumer("payments", "billing") as consumer, log.subscribe("payments") as records:
        foreign.add_partitions(3)
        for partition in range(3):
            foreign.send([str(partition).encode()], partition=partition)

        seen: set[object] = set()
        read: set[int] = set()
        while len(seen) < 3:
            delivery = consumer.next(PATIENCE_S)
            assert delivery is not None
            seen.add(delivery.record.value)
            consumer.ack(delivery)
        while len(read) < 3:
            record = records.next(PATIENCE_S)
            assert record is not None
            read.add(record.partition)

    assert log.describe_topic("payments").settings.partitions == 3


def test_it_is_read_by_time(log: sl.Log, foreign: ForeignTopic) -> None:
    for second in range(5):
        foreign.send([str(second).encode()], time_ms=1_700_000_000_000 + second * 1000)
    log.create_topic("payments", source=foreign.name)
    since = datetime.fromtimestamp(1_700_000_002.5, UTC)

    assert log.offset_at("payments", 0, 1_700_000_002_500_000) == 3
    assert log.offset_at("payments", 0, 1_800_000_000_000_000) == 5
    with log.subscribe("payments", start=since) as records:
        first = records.next(PATIENCE_S)
    assert first is not None
    assert first.value == b"3"


def test_it_is_scanned(log: sl.Log, foreign: ForeignTopic) -> None:
    with_holes(foreign)
    foreign.send([b"late first", b"early"], time_ms=1_000)
    log.create_topic("payments", source=foreign.name)

    table = sl.scan(log, "payments").to_table()
    assert table.column("value").to_pylist()[:4] == [b"0", b"1", b"6", b"7"]
    assert table.column("_offset").to_pylist()[:4] == [0, 1, 6, 7]
    found = sl.scan(log, "payments", where="_timestamp <= timestamp'1970-01-02 00:00:00Z'")
    assert found.to_table().column("value").to_pylist() == [b"late first", b"early"]


def test_its_headers_are_in_batches_and_scans(log: sl.Log, foreign: ForeignTopic) -> None:
    headers: list[tuple[str, bytes | None]] = [("a", b"\xff"), ("a", b"2"), ("no", None)]
    foreign.send([b"0", None], headers=headers)
    foreign.send([b"2"])
    log.create_topic("payments", source=foreign.name)

    named = [{"key": name, "value": value} for name, value in headers]
    found = pa.table(log.read_batches("payments", 0, 0))
    for table in (found, sl.scan(log, "payments").to_table()):
        assert table.column("value").to_pylist() == [b"0", None, b"2"]
        assert table.column("headers").to_pylist() == [named, named, []]
    chosen = sl.scan(log, "payments", where="_offset > 1").to_table()
    assert chosen.column("headers").to_pylist() == [[]]


def test_a_trigger_handles_messages(log: sl.Log, foreign: ForeignTopic) -> None:
    with_holes(foreign)
    log.create_topic("payments", source=foreign.name)
    seen: list[bytes] = []
    is_done = threading.Event()

    @sl.on("payments")
    def handle(record: sl.Record) -> None:
        seen.append(bytes(record.value))  # type: ignore[arg-type] # It is a topic of bytes.
        if len(seen) == 4:
            is_done.set()

    with Triggers(log, [handle]):
        assert is_done.wait(PATIENCE_S)

    assert seen == [b"0", b"1", b"6", b"7"]


def test_what_kafka_has_removed_is_trimmed(log: sl.Log, foreign: ForeignTopic) -> None:
    foreign.send([b"0", b"1", b"2"])
    log.create_topic("payments", source=foreign.name)
    with log.subscribe("payments", start=1) as records:
        foreign.delete_before(0, 2)

        with pytest.raises(sl.TrimmedError) as caught:
            log.read("payments", 0, 1)
        assert caught.value.oldest == 2
        with pytest.raises(sl.TrimmedError):
            records.next(PATIENCE_S)
    assert log.marks("payments", 0).low == 2


def test_a_topic_that_is_deleted_or_made_again_is_refused(
    log: sl.Log, foreign: ForeignTopic
) -> None:
    foreign.send([b"0"])
    log.create_topic("payments", source=foreign.name)
    with log.subscribe("payments") as records:
        assert records.next(PATIENCE_S) is not None
        foreign.delete()

        with pytest.raises(sl.InvalidError, match="was deleted: drop this topic"):
            records.next()

    foreign.create()
    wait_until_raised(log, "created again")
    log.drop_topic("payments")
    log.create_topic("payments", source=foreign.name)
    assert offsets(log.read("payments", 0, 0)) == []


def test_a_log_is_described_while_a_source_is_gone(log: sl.Log, foreign: ForeignTopic) -> None:
    foreign.send([b"0"])
    log.create_topic("own")
    log.create_topic("payments", source=foreign.name)
    assert len(log.describe_topic("payments").marks) == 1
    foreign.delete()
    wait_until_raised(log, "was deleted")

    found = log.describe()
    assert (found.topics, found.partitions) == (2, 1)
    described = log.describe_topic("payments")
    assert (described.marks, described.settings.source) == ((), foreign.name)


def wait_until_raised(log: sl.Log, text: str) -> None:
    for _ in range(600):
        try:
            log.marks("payments", 0)
        except sl.InvalidError as error:
            if text in str(error):
                return
        threading.Event().wait(0.05)
    pytest.fail(f"never raised: {text}")


def test_it_is_only_read(log: sl.Log, foreign: ForeignTopic, tmp_path: Path) -> None:
    foreign.send([b"0"])
    log.create_topic("payments", source=foreign.name)

    refused: list[Callable[[], object]] = [
        lambda: log.append("payments", b"x"),
        lambda: log.append("payments", sl.Event("x", {})),
        lambda: log.append_many("payments", [b"x"]),
        lambda: log.trim("payments", 0, 1),
        lambda: log.change_retention("payments", retention_bytes=1),
        lambda: log.apply_retention("payments"),
        lambda: log.add_partitions("payments", 3),
    ]
    for call in refused:
        with pytest.raises(sl.InvalidError, match="only read here"):
            call()
    need_all: list[Callable[[], object]] = [
        lambda: sl.SharedConsumer(log, "payments", "w"),
        lambda: sl.LiveView(log, "payments", Accounts()),
        lambda: log.verify("payments"),
        lambda: tier(log, "payments", f"file:{tmp_path}"),
        lambda: sl.copy(log.describe().location, f"file:{tmp_path}/copy", topics=["payments"]),
    ]
    for call in need_all:
        with pytest.raises(sl.InvalidError, match="has gaps"):
            call()
    sl.copy(log.describe().location, f"file:{tmp_path}/copy")
    with sl.open(f"file:{tmp_path}/copy", mode="read") as copied:
        assert copied.topics() == []
    assert offsets(log.read("payments", 0, 0)) == [0]


def test_what_cannot_be_a_source_is_refused(log: sl.Log, new_url: Callable[[], str]) -> None:
    with pytest.raises(sl.InvalidError, match="no such Kafka topic"):
        log.create_topic("payments", source="nowhere")
    with pytest.raises(sl.InvalidError, match="one of the log's own"):
        log.create_topic("payments", source=f"{log.describe().location.rpartition('/')[2]}.log")
    with pytest.raises(sl.InvalidError, match="leave partitions out"):
        log.create_topic("payments", source="nowhere", partitions=2)
    with pytest.raises(sl.InvalidError, match="read as bytes"):
        log.create_topic("payments", source="nowhere", value_kind="event")
    with pytest.raises(sl.InvalidError, match="no retention"):
        log.create_topic("payments", source="nowhere", retention_bytes=5)
    with sl.open("memory:") as other, pytest.raises(sl.InvalidError, match="only a log on Kafka"):
        other.create_topic("payments", source="nowhere")


def test_dropping_it_leaves_the_topic_of_kafka(
    log: sl.Log, foreign: ForeignTopic, server: KafkaServer
) -> None:
    foreign.send([b"0"])
    log.create_topic("payments", source=foreign.name)
    assert log.create_topic("payments", source=foreign.name) == log.topic("payments")
    log.drop_topic("payments")

    log.create_topic("again", source=foreign.name)
    assert offsets(log.read("again", 0, 0)) == [0]
    assert Producer({"bootstrap.servers": server.address}).list_topics(foreign.name, 10)


def test_the_command_line_makes_and_reads_it(
    new_url: Callable[[], str], foreign: ForeignTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    url = new_url()
    foreign.send([b"hello"], key=b"k")
    with sl.open(url):
        pass

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            app(list(words))
        assert not ended.value.code
        return capsys.readouterr().out

    run("create", "payments", "--source", foreign.name, "--url", url)
    assert json.loads(run("describe", "payments", "--url", url, "--json"))["source"] == foreign.name
    line = json.loads(run("read", "payments", "--url", url, "--json").splitlines()[0])
    assert (line["offset"], line["key"], line["value"]) == (0, "k", "aGVsbG8=")
