"""What is specific to logs on JetStream, for users."""

import contextlib
import gc
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

import strandline as sl
from strandline.stores import frame_places
from strandline.stores.jetstream import lane, opened, streams, watching
from strandline.stores.jetstream.address import PASSWORD_VARIABLE, SYSTEM_VARIABLE
from strandline.stores.jetstream.topics import JetStreamTopics
from strandline.values import Topic
from tests.stores.doctor import doctor_checks
from tests.stores.engine_server import NoServerError
from tests.stores.jetstream.server import NatsServer

PROJECT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow

EVENT = sl.Event("order", {"n": 1})


@contextlib.contextmanager
def own_server(**settings: object) -> Iterator[NatsServer]:
    try:
        found = NatsServer(**settings)  # type: ignore[arg-type]
    except NoServerError as error:
        pytest.skip(f"NATS cannot be started: {error}")
    with contextlib.closing(found):
        yield found


def test_a_log_is_found_again_by_its_name(new_url: Callable[[], str]) -> None:
    url, other = new_url(), new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        log.append("t", EVENT)

    with sl.open(url) as again, sl.open(other) as elsewhere:
        assert again.id == log.id
        assert [record.payload for record in again.read("t", 0, 0)] == [{"n": 1}]
        assert elsewhere.topics() == []


def test_a_hint_comes_from_another_process_without_polling(new_url: Callable[[], str]) -> None:
    url = new_url()
    with (
        mock.patch.object(watching, "_POLL_S", 1e6),
        sl.open(url) as log,
        sl.open(url) as reader,
    ):
        log.create_topic("t")
        with reader.subscribe("t") as subscription:
            for number in range(20):
                log.append("t", sl.Event("order", {"n": number}))
                record = subscription.next(timeout_s=60.0)
                assert record is not None
                assert record.offset == number


@pytest.mark.parametrize("count", [1, 7, 1001, 5000])
def test_batches_of_any_size_are_read_as_they_were_written(
    new_url: Callable[[], str], count: int
) -> None:
    events = [sl.Event("order", {"n": n}, key=str(n), headers={"h": "1"}) for n in range(count)]
    with sl.open(new_url()) as log:
        log.create_topic("t")
        log.append_many("t", events)

        assert [record.value for record in log.read("t", 0, 0)] == events
        assert sum(batch.num_rows for batch in log.read_batches("t", 0, 0)) == count


def test_an_append_that_takes_several_messages_is_stored_as_a_whole(
    new_url: Callable[[], str],
) -> None:
    with mock.patch.object(lane, "_FRAME_BYTES", 2000), sl.open(new_url()) as log:
        log.create_topic("t", value_kind="bytes")
        values = [bytes([number]) * 700 for number in range(20)]

        receipts = log.append_many("t", values, idempotency_key="once")
        again = log.append_many("t", values, idempotency_key="once")

        assert [record.value for record in log.read("t", 0, 0)] == values
        assert [each.offset for each in again] == [each.offset for each in receipts]


def test_any_offset_is_found_in_frames_of_any_size(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        number = 0
        for count in (1, 300, 1, 1, 40, 1, 1, 1, 200, 1):
            log.append_many("t", [sl.Event("order", {"n": number + each}) for each in range(count)])
            number += count
    with mock.patch.object(frame_places, "_PLACES_MAX", 3), sl.open(url, mode="read") as log:
        for start in [*range(0, number, 37), number - 1]:
            (record,) = log.read("t", 0, start, records_max=1)
            assert record.payload["n"] == record.offset == start


def test_pages_are_put_together_whatever_their_size(new_url: Callable[[], str]) -> None:
    with mock.patch.object(streams, "_PAGE_FRAMES", 2), sl.open(new_url()) as log:
        log.create_topic("t")
        for number in range(7):
            log.append("t", sl.Event("order", {"n": number}), idempotency_key=str(number))

        assert [record.payload["n"] for record in log.read("t", 0, 0)] == list(range(7))


def test_another_process_recognises_what_was_written_before_a_trim(
    new_url: Callable[[], str],
) -> None:
    url = new_url()
    with mock.patch.object(streams, "_PAGE_FRAMES", 2), sl.open(url) as log:
        log.create_topic("t")
        for number in range(5):
            log.append("t", EVENT, idempotency_key=f"k{number}")
        log.trim("t", 0, 3)
        for number in range(5, 10):
            log.append("t", EVENT, idempotency_key=f"k{number}")
        with sl.open(url) as other:
            repeats = [other.append("t", EVENT, idempotency_key=f"k{n}") for n in range(11)]

    assert [each.is_repeat for each in repeats] == [True] * 10 + [False]
    assert [each.offset for each in repeats] == list(range(11))


def test_identities_are_stored_before_there_are_too_many_to_fold(
    new_url: Callable[[], str],
) -> None:
    url = new_url()
    with mock.patch.object(lane, "_UNSAVED_MAX", 3), sl.open(url) as log:
        log.create_topic("t")
        for number in range(8):
            log.append("t", EVENT, idempotency_key=f"k{number}")
    with sl.open(url) as other:
        assert other.append("t", EVENT, idempotency_key="k0").is_repeat
        assert other.append("t", EVENT, idempotency_key="k7").is_repeat


def test_a_trim_in_the_middle_of_a_frame_holds(new_url: Callable[[], str]) -> None:
    with sl.open(new_url()) as log:
        log.create_topic("t", proof=True)
        log.append_many("t", [sl.Event("order", {"n": number}) for number in range(10)])
        log.append("t", EVENT)

        log.trim("t", 0, 4)

        assert [record.offset for record in log.read("t", 0, 4)] == list(range(4, 11))
        with pytest.raises(sl.TrimmedError):
            list(log.read("t", 0, 3))
        assert all(report.is_sound for report in log.verify("t"))


def test_a_partition_without_records_continues_after_its_end(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        log.append_many("t", [EVENT] * 3)
        log.trim("t", 0, 3)
    with sl.open(url) as log:
        assert log.append("t", EVENT).offset == 3
        assert [record.offset for record in log.read("t", 0, 3)] == [3]


def test_a_drop_that_was_cut_short_is_finished_by_the_next_change(
    new_url: Callable[[], str], server: NatsServer
) -> None:
    async def cut_short(_: object, topic_id: object) -> None:
        del topic_id
        raise sl.UnavailableError("cut short")

    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        log.append("t", EVENT)
        with (
            mock.patch.object(JetStreamTopics, "_finish_drop", cut_short),
            pytest.raises(sl.UnavailableError),
        ):
            log.drop_topic("t")
        before = log.describe().size_bytes

    with sl.open(url) as log:
        assert log.topics() == []
        log.create_topic("u")
        assert (log.describe().size_bytes or 0) < (before or 0)


def test_a_topic_that_was_dropped_and_created_again_is_found(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as one, sl.open(url) as other:
        one.create_topic("t")
        other.append("t", EVENT)
        one.drop_topic("t")
        with pytest.raises(sl.InvalidError, match=r"no such topic|dropped"):
            other.append("t", EVENT)

        one.create_topic("t")

        assert other.append("t", EVENT).offset == 0


def test_many_processes_may_create_the_log_and_a_topic_at_once(new_url: Callable[[], str]) -> None:
    url = new_url()
    logs: list[sl.Log] = []
    topics: list[Topic] = []

    def create() -> None:
        log = sl.open(url)
        logs.append(log)
        topics.append(log.create_topic("t"))

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({log.id for log in logs}) == 1
    assert len({topic.id for topic in topics}) == 1
    assert len(topics) == len(threads)
    for log in logs:
        log.close()


def test_a_claim_that_is_collected_can_be_taken_again(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log, sl.open(url) as other:
        log.create_topic("t")
        claim = log.claim("t", "reader", 0)
        with pytest.raises(sl.UnavailableError, match="another reader") as caught:
            other.claim("t", "reader", 0)
        assert caught.value.fields["pid"] is not None

        del claim
        gc.collect()

        log.claim("t", "reader", 0).release()
        other.claim("t", "reader", 0).release()


def test_a_record_that_is_larger_than_max_payload_is_refused(new_url: Callable[[], str]) -> None:
    with own_server(more="max_payload: 100000") as small, sl.open(small.url()) as log:
        log.create_topic("t", value_kind="bytes")

        with pytest.raises(sl.InvalidError, match="max_payload"):
            log.append("t", b"x" * 200_000)

        assert log.append_many("t", [b"x" * 50_000] * 10)[-1].offset == 9


def test_a_server_that_syncs_later_promises_nothing_durable() -> None:
    with (
        own_server(sync="2m") as careless,
        sl.open(careless.url(), system_url=careless.system_url) as log,
    ):
        log.create_topic("t")

        with pytest.raises(sl.InvalidError):
            log.append("t", EVENT, durability="durable")

        assert log.append("t", EVENT).level is sl.Durability.WRITTEN
        assert "sync_interval" in log.describe().durability_reason


def test_a_log_claims_no_more_than_it_knows(new_url: Callable[[], str], server: NatsServer) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("t")
        assert log.append("t", EVENT).level is sl.Durability.WRITTEN
        assert "system account" in log.describe().durability_reason
    with sl.open(url, system_url=server.system_url) as log:
        assert log.append("t", EVENT, durability="durable").level is sl.Durability.DURABLE
    with (
        mock.patch.object(opened, "_SERVERS_S", 0.2),
        sl.open(url, system_url=server.url()) as log,
    ):
        assert "did not answer" in log.describe().durability_reason


def test_a_server_without_jetstream_says_what_to_do() -> None:
    with (
        own_server(jetstream=False) as plain,
        pytest.raises(sl.InvalidError, match="start it with jetstream"),
    ):
        sl.open(plain.url())


def test_a_server_whose_storage_is_full_says_what_to_do() -> None:
    limits = "jetstream { max_file: 20000 }"
    with own_server(limits=limits) as full, sl.open(full.url()) as log:
        log.create_topic("t", value_kind="bytes")

        with pytest.raises(sl.UnavailableError, match="limit"):
            log.append_many("t", [b"x" * 5000] * 10)

        assert list(log.read("t", 0, 0)) == []
        assert log.append("t", b"x").offset == 0


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(sl.UnavailableError, match="check that it runs"):
        sl.open("nats://127.0.0.1:1", connect_timeout_s=2.0)


@pytest.mark.parametrize("user", ["app:hidden", "bob:hidden", "hidden", ""])
def test_a_refused_connection_says_why_and_shows_no_secret(server: NatsServer, user: str) -> None:
    url = server.url(user=user) if user else server.url().replace("app:secret@", "")
    with pytest.raises(sl.InvalidError, match="user") as caught:
        sl.open(url)

    assert "hidden" not in str(caught.value)
    assert "hidden" not in repr(caught.value.__cause__)


def test_a_user_who_may_not_write_is_refused() -> None:
    rights = 'users: [{user: "app", password: "secret"}, {user: "reader", password: "secret",'
    rights += ' permissions: { publish: { allow: ["$JS.API.>", "_INBOX.>"] } } }]'
    with own_server(limits="jetstream: enabled", users=rights) as strict:
        with sl.open(strict.url()) as log:
            log.create_topic("t")
            log.append("t", EVENT)
        with sl.open(strict.url(user="reader:secret")) as log:
            assert len(list(log.read("t", 0, 0))) == 1
            for _ in range(2):
                with pytest.raises(sl.InvalidError, match="no right"):
                    log.append("t", EVENT)
            with pytest.raises(sl.InvalidError, match="no right"):
                log.create_topic("u")


def test_a_password_may_come_from_the_environment(
    server: NatsServer, new_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    with sl.open(new_url().replace("app:secret@", "app@")) as log:
        assert log.topics() == []


@pytest.mark.parametrize(
    "url",
    [
        "nats://app:secret@host:x/log",
        "nats://app:secret@host/Log",
        "nats://app:sec/ret@host",
        "nats://app:secret@host/log?nothing=1",
        "nats://app:secret@host?replicas=2",
        "nats://app:secret@host?tls_ca=missing.pem",
        "nats:",
    ],
)
def test_a_url_that_is_refused_is_shown_without_its_secret(url: str) -> None:
    with pytest.raises(sl.InvalidError) as caught:
        sl.open(url, connect_timeout_s=2.0)

    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value.fields)


def test_a_log_shows_no_secret(new_url: Callable[[], str]) -> None:
    with sl.open(new_url()) as log:
        assert "secret" not in repr(log)
        assert "secret" not in repr(log.describe())


def test_reading_needs_a_log(new_url: Callable[[], str]) -> None:
    with pytest.raises(sl.InvalidError, match="there is no log here"):
        sl.open(new_url(), mode="read")


def test_replicas_that_cannot_be_had_are_refused(new_url: Callable[[], str]) -> None:
    with pytest.raises(sl.InvalidError, match="replicas"):
        sl.open(new_url(), replicas=3)
    url = new_url()
    sl.open(url).close()
    with pytest.raises(sl.InvalidError, match="another number of replicas"):
        sl.open(url, replicas=3)


def test_doctor_shows_what_a_server_has_and_how_durable_it_is(
    server: NatsServer,
    new_url: Callable[[], str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doctor = partial(doctor_checks, capsys)
    url = new_url()
    found = doctor(url)
    assert found["version"][0] == found["jetstream"][0] == found["max_payload"][0] == "ok"
    assert found["durability"][0] == "warning"
    assert "none yet" in found["log"][1]
    monkeypatch.setenv(SYSTEM_VARIABLE, server.system_url)
    with sl.open(url):
        assert "1 replicas" in doctor(url)["log"][1]
    assert doctor(url)["durability"][:1] == ("ok",)

    refused = doctor(server.url(user="bob:hidden"))
    assert refused["server"][0] == "failed"
    assert "hidden" not in str(refused)


def test_the_page_about_jetstream_works_as_written(
    new_url: Callable[[], str], server: NatsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (PROJECT / "docs/howto/run-on-jetstream.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```py\n(.*?)```", page, re.DOTALL))
    code = code.replace("nats://sys:hidden@127.0.0.1:4222", server.system_url)

    exec(code.replace("nats://app:secret@127.0.0.1:4222/shop", new_url()), {})  # noqa: S102 - Ours.

    assert capsys.readouterr().out == (
        "appended at offset 0\nplaced {'total': 12}\nTrue\nDURABLE\n"
    )
