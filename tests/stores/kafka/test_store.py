"""What a user of a log on Kafka sees beyond the rules of every log."""

import contextlib
import gc
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

import strandline as sl
from strandline.clock import SystemClock
from strandline.stores.kafka import claims, identities, keyed, partition
from strandline.stores.kafka.address import CLIENT_VARIABLE, PASSWORD_VARIABLE, parse_address
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.fetching import MessagePlace
from strandline.stores.kafka.topics import KafkaTopics
from tests.stores.doctor import doctor_checks
from tests.stores.kafka.foreign import ForeignTopic
from tests.stores.kafka.server import KafkaServer

pytestmark = [pytest.mark.slow, pytest.mark.heavy]

PROJECT = Path(__file__).parents[3]
EVENT = sl.Event("order", {"n": 1})


def prefix_of(url: str) -> str:
    return url.rpartition("/")[2]


def topics_of(server: KafkaServer, url: str) -> list[str]:
    admin = AdminClient({"bootstrap.servers": server.address})
    prefix = f"{prefix_of(url)}."
    return sorted(name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix))


def set_topic(server: KafkaServer, name: str, setting: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.address})
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    for each in admin.incremental_alter_configs([changed]).values():
        each.result(30)


@contextlib.contextmanager
def watching(owner: type, name: str) -> Iterator[mock.Mock]:
    found = getattr(owner, name)
    with mock.patch.object(owner, name, autospec=True, side_effect=found) as seen:
        yield seen


def test_a_log_is_found_again_by_its_prefix(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t", partitions=3)
        log.append_many("t", [EVENT] * 5, partition=2)
        log_id = log.describe().log_id

    with sl.open(url, mode="read") as log:
        assert log.describe().log_id == log_id
        assert [record.offset for record in log.read("t", 2, 0)] == [0, 1, 2, 3, 4]


def test_a_log_that_is_not_there_is_not_made_to_be_read(new_url: Callable[[], str]) -> None:
    with pytest.raises(sl.InvalidError, match="there is no log here"):
        sl.open(new_url(), mode="read")


def test_a_log_says_that_it_is_durable_and_how_it_knows(new_url: Callable[[], str]) -> None:
    with sl.open(new_url()) as log:
        log.create_topic("t")

        assert log.append("t", EVENT, durability="durable").level is sl.Durability.DURABLE
        assert "flush.messages=1" in log.describe().durability_reason


def test_a_log_that_leaves_syncing_to_the_broker_is_written_at_most(
    new_url: Callable[[], str],
) -> None:
    with sl.open(new_url(), sync="broker") as log:
        log.create_topic("t")

        assert log.describe().durability_max is sl.Durability.WRITTEN
        with pytest.raises(sl.InvalidError):
            log.append("t", EVENT, durability="durable")


def test_a_topic_whose_syncing_was_changed_lowers_the_level_of_its_log(
    new_url: Callable[[], str], server: KafkaServer
) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
    records = next(name for name in topics_of(server, url) if not name.endswith(".log"))
    set_topic(server, records, "flush.messages", "1000")

    with sl.open(url) as log:
        assert log.describe().durability_max is sl.Durability.WRITTEN
        assert "1 of its 2 topics" in log.describe().durability_reason


def test_a_topic_that_takes_too_small_messages_is_found_when_the_log_is_opened(
    new_url: Callable[[], str], server: KafkaServer
) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
    records = next(name for name in topics_of(server, url) if not name.endswith(".log"))
    set_topic(server, records, "max.message.bytes", "1000000")

    with pytest.raises(sl.InvalidError, match=r"max\.message\.bytes"):
        sl.open(url)


def test_a_record_of_16_mib_is_stored_and_one_append_has_a_limit(
    new_url: Callable[[], str],
) -> None:
    large = b"x" * (16 * 1024 * 1024)
    with sl.open(new_url()) as log:
        log.create_topic("t", value_kind="bytes")
        log.append("t", large)

        with pytest.raises(sl.InvalidError, match="append less at a time"):
            log.append_many("t", [large] * 5)

        assert [record.value for record in log.read("t", 0, 0)] == [large]


def test_frames_that_came_too_late_are_skipped_by_every_reader(
    new_url: Callable[[], str], server: KafkaServer
) -> None:
    url = new_url()
    with sl.open(url) as one, sl.open(url) as other:
        one.create_topic("t")
        for number in range(6):
            log = one if number % 2 else other
            log.append("t", sl.Event("order", {"n": number}))

        expected = list(range(6))
        assert [record.payload["n"] for record in one.read("t", 0, 0)] == expected
    with mock.patch.object(partition, "_TAIL_BYTES", 0), sl.open(url, mode="read") as log:
        for start in expected:
            found = [record.payload["n"] for record in log.read("t", 0, start)]
            assert found == expected[start:]
    records = next(name for name in topics_of(server, url) if not name.endswith(".log"))
    with contextlib.closing(_clients(server)) as clients:
        stored = clients.ends([MessagePlace(records, 0)])[0]
    assert stored > len(expected)


def test_what_another_program_sends_to_a_topic_is_skipped(
    new_url: Callable[[], str], server: KafkaServer
) -> None:
    url = new_url()
    producer = Producer({"bootstrap.servers": server.address})
    with sl.open(url) as log:
        log.create_topic("t")
        log.append("t", EVENT)
        for name in topics_of(server, url):
            producer.produce(name, b"not ours", partition=0)
        assert producer.flush(30) == 0

        assert log.append("t", EVENT).offset == 1
        assert log.create_topic("u").name == "u"
    with sl.open(url, mode="read") as log:
        assert [record.offset for record in log.read("t", 0, 0)] == [0, 1]
        assert {topic.name for topic in log.topics()} == {"t", "u"}


def test_any_offset_is_found_in_frames_of_any_size(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        for size in (1, 40, 2, 3, 1, 1, 60, 1, 1, 5) * 3:
            log.append_many("t", [EVENT] * size)
        end = log.marks("t", 0).high

    with mock.patch.object(partition, "_TAIL_BYTES", 0), sl.open(url, mode="read") as log:
        for offset in (0, end - 1, 50, 120, 44, 40, 41, 3, end // 2):
            assert next(iter(log.read("t", 0, offset))).offset == offset


def test_trimmed_records_are_deleted_by_the_broker(
    new_url: Callable[[], str], server: KafkaServer
) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        for _ in range(4):
            log.append_many("t", [EVENT] * 2)
        log.trim("t", 0, 4)
        records = next(name for name in topics_of(server, url) if not name.endswith(".log"))
        with contextlib.closing(_clients(server)) as clients:
            assert clients.first(MessagePlace(records, 0)) == 2
            log.trim("t", 0, 8)
            # Everything but the checkpoint that says where the partition ends.
            assert clients.first(MessagePlace(records, 0)) == 5
        assert log.append("t", EVENT).offset == 8
    with sl.open(url, mode="read") as log:
        assert [record.offset for record in log.read("t", 0, 8)] == [8]


def test_identities_are_stored_so_that_a_new_process_reads_few_frames(
    new_url: Callable[[], str],
) -> None:
    url = new_url()
    with mock.patch.object(identities, "_UNSAVED_MAX", 5), sl.open(url) as log:
        log.create_topic("t")
        for number in range(12):
            log.append("t", EVENT, idempotency_key=f"k{number}")

    with sl.open(url) as log:
        log.marks("t", 0)
        with watching(KafkaClients, "fetch") as fetched:
            assert log.append("t", EVENT, idempotency_key="k0").is_repeat
        asked = [call.args[2] for call in fetched.call_args_list]
        assert asked
        assert min(asked) >= 10
        assert log.append("t", EVENT, idempotency_key="k11").is_repeat
        assert not log.append("t", EVENT, idempotency_key="k12").is_repeat


def test_the_topic_of_keyed_values_does_not_grow_for_ever(
    new_url: Callable[[], str], server: KafkaServer
) -> None:
    url = new_url()
    with mock.patch.object(keyed, "_SNAPSHOT_AFTER", 10), sl.open(url) as log:
        log.create_topic("t")
        log.append_many("t", [EVENT] * 30)
        with log.consumer("t", "worker") as consumer:
            for _ in range(30):
                record = consumer.next(timeout_s=60)
                assert record is not None
                consumer.ack(record)

    place = MessagePlace(f"{prefix_of(url)}.log", 0)
    with contextlib.closing(_clients(server)) as clients:
        assert clients.ends([place])[0] - clients.first(place) < 20
    with sl.open(url) as log, log.consumer("t", "worker") as consumer:
        assert consumer.next(timeout_s=0) is None


def test_a_claim_ends_soon_after_its_process_was_killed(new_url: Callable[[], str]) -> None:
    url = new_url()
    with mock.patch.object(claims, "LEASE_S", 3), sl.open(url) as one, sl.open(url) as other:
        one.create_topic("t")
        # A process that was killed renews nothing.
        with mock.patch.object(claims.KafkaClaims, "_renew"):
            held = one.claim("t", "reader", 0)
            with pytest.raises(sl.UnavailableError, match="another reader") as caught:
                other.claim("t", "reader", 0)
            assert caught.value.fields["pid"] is not None
            taken = None
            while taken is None:
                with contextlib.suppress(sl.UnavailableError):
                    taken = other.claim("t", "reader", 0)
        held.release()

        with pytest.raises(sl.UnavailableError):
            one.claim("t", "reader", 0)
        taken.release()
        one.claim("t", "reader", 0).release()


def test_a_claim_that_is_collected_can_be_taken_again(new_url: Callable[[], str]) -> None:
    with sl.open(new_url()) as log:
        log.create_topic("t")
        claim = log.claim("t", "reader", 0)
        del claim
        gc.collect()

        log.claim("t", "reader", 0).release()


def test_the_page_about_kafka_works_as_written(
    new_url: Callable[[], str], server: KafkaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (PROJECT / "docs/howto/run-on-kafka.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```py\n(.*?)```", page, re.DOTALL))
    foreign = ForeignTopic(server)
    foreign.send([b"12 EUR"], key=b"alice", headers=[("trace", b"1")])
    code = code.replace("payments.v1", foreign.name)

    exec(code.replace("kafka://127.0.0.1:9092/shop", new_url()), {})  # noqa: S102 - Ours.

    assert capsys.readouterr().out == (
        "appended at offset 0\nplaced {'total': 12}\nTrue\nDURABLE\n"
        "each of its 2 topics has flush.messages=1\n"
        "0 alice b'12 EUR' (('trace', b'1'),)\n"
    )


def test_a_dropped_topic_leaves_nothing_on_the_broker(
    new_url: Callable[[], str], server: KafkaServer
) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t", partitions=2)
        log.append("t", EVENT, key="a")
        log.drop_topic("t")

        assert topics_of(server, url) == [f"{prefix_of(url)}.log"]


def test_a_drop_that_was_cut_short_is_finished_by_the_next_change(
    new_url: Callable[[], str], server: KafkaServer
) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        with (
            mock.patch.object(KafkaTopics, "_delete", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            log.drop_topic("t")
        assert len(topics_of(server, url)) == 2
        assert not list(log.topics())

        log.create_topic("u")

        assert len(topics_of(server, url)) == 2
        assert [topic.name for topic in log.topics()] == ["u"]


# --- how it is reached ---


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "hush1")
    assert parse_address("kafka://app@a,b:9093/shop").client["sasl.password"] == "hush1"
    file = tmp_path / "client"
    file.write_text("# ours\nssl.key.password = hush2\nsasl.mechanism=PLAIN\n")
    monkeypatch.setenv(CLIENT_VARIABLE, str(file))

    address = parse_address("kafka://app:hush3@a,b:9093/shop?tls=true")

    assert address.client["ssl.key.password"] == "hush2"
    assert address.client["sasl.password"] == "hush3"
    assert address.client["security.protocol"] == "sasl_ssl"
    assert address.client["sasl.mechanism"] == "PLAIN"
    assert address.client["bootstrap.servers"] == "a:9092,b:9093"
    assert address.shown == "kafka://app@a:9092,b:9093/shop"
    assert "hush" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "kafka://",
        "kafka://host:x/shop",
        "kafka://host/Shop",
        "kafka://host/shop?replicas=x",
        "kafka://host/shop?replicas=0",
        "kafka://host/shop?sync=maybe",
        "kafka://host/shop?tls=yes",
        "kafka://host/shop?strange=1",
        "kafka://host/shop?tls_ca=/nowhere",
        "kafka://host/shop?client_file=/nowhere",
        "kafka://host/shop?mechanism=PLAIN",
    ],
)
def test_a_url_that_is_none_is_refused_before_anything_is_asked(url: str) -> None:
    with pytest.raises(sl.InvalidError):
        sl.open(url)


def test_brokers_that_are_not_there_are_named_without_secrets() -> None:
    with pytest.raises(sl.UnavailableError, match="check that they run") as caught:
        sl.open("kafka://app:hush@127.0.0.1:1/shop", connect_timeout_s=1)

    assert "hush" not in str(caught.value)


def test_the_doctor_shows_what_the_brokers_have(
    new_url: Callable[[], str], server: KafkaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor = partial(doctor_checks, capsys)
    url = new_url()
    assert doctor(url)["log"][1] == f"none yet with the prefix {prefix_of(url)}"
    with sl.open(url) as log:
        log.create_topic("t")
    found = doctor(url)
    assert found["durability"][:2] == ("ok", "durable: each of its 2 topics has flush.messages=1")
    own = ("brokers", "version", "log", "durability", "max.message.bytes", "retention", "replicas")
    assert [found[name][0] for name in own] == ["ok"] * len(own)
    set_topic(server, f"{prefix_of(url)}.log", "retention.ms", "1000")

    assert doctor(url)["retention"][:2] == ("failed", "changed: retention.ms")
    assert doctor("kafka://127.0.0.1:1/shop")["brokers"][0] == "failed"


def _clients(server: KafkaServer) -> KafkaClients:
    address = parse_address(server.url())
    return KafkaClients(address, clock=SystemClock(), connect_timeout_s=30, patience_s=30)
