"""What only a remote log has: lost answers, tokens, claims that end with their client."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import Log, parts_of, wire
from strandline.log.claims import ConsumerPlace
from strandline.log.store import AppendRequest
from strandline.opening import examine
from strandline.server import ServerSettings, TokenTable
from strandline.server.remote_claims import RemoteClaims
from strandline.stores.remote import RemoteStore
from strandline.testing import FakeClock
from strandline.values import (
    Event,
    InvalidError,
    Partition,
    StrandlineError,
    Topic,
    UnavailableError,
)
from tests.logs import memory_log
from tests.stores.remote.switchboard import Switchboard

SCHEMA = pa.schema([("id", pa.int64())])


class _OtherServer(BaseHTTPRequestHandler):
    """Answers as web servers do that know nothing of logs: with the status in the path."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        page = b"<!DOCTYPE html><html><body>Hello</body></html>"
        self.send_response(int(self.path.split("/")[1]))
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def log() -> Iterator[Log]:
    with memory_log() as log:
        yield log


@pytest.fixture
def remote(log: Log, switchboard: Switchboard) -> Iterator[Callable[..., Log]]:
    """Open remote logs of `log`."""
    with contextlib.ExitStack() as opened:
        url = switchboard.serve(log)
        yield lambda **options: opened.enter_context(Log(RemoteStore(url, **options)))


class LosesAnswers:
    """A transport that loses the first answers of some calls, after they were carried out."""

    def __init__(self, log: Log, call: str, times: int) -> None:
        store: Any = parts_of(log).store
        client = store._connection._client  # noqa: SLF001 - The seam.
        self._post, self._call, self.left = client.post, call, times
        client.post = self

    def __call__(self, name: str, **options: Any) -> httpx2.Response:
        answer: httpx2.Response = self._post(name, **options)
        if name == self._call and self.left:
            self.left -= 1
            return self._lost()
        return answer

    def _lost(self) -> httpx2.Response:
        raise httpx2.ReadError("the answer is lost")


class AnswersAsProxy(LosesAnswers):
    """The same behind a proxy, which answers in place of the server."""

    def _lost(self) -> httpx2.Response:
        status = 502 + self.left % 2 * 2
        return httpx2.Response(status, text="<html><body>Bad Gateway</body></html>")


@pytest.mark.parametrize("kind", [LosesAnswers, AnswersAsProxy])
@pytest.mark.parametrize("count", [1, 3, 2000])
def test_an_append_whose_answer_is_lost_is_stored_once(
    log: Log, remote: Callable[..., Log], count: int, kind: type[LosesAnswers]
) -> None:
    log.create_topic("orders")
    with remote() as other:
        faulty = kind(other, "append", 2)

        receipts = other.append_many("orders", [Event("a", n) for n in range(count)])
        after = other.append("orders", Event("b"))

    assert faulty.left == 0
    assert [each.offset for each in receipts] == list(range(count))
    assert not any(each.is_repeat for each in receipts)
    assert after.offset == count
    assert len(list(log.read("orders", 0, 0))) == count + 1


def test_the_identity_of_an_append_shows_nowhere(log: Log, remote: Callable[..., Log]) -> None:
    """It changes no routing, no record, and no window of the users' own identities."""
    log.create_topic("orders", partitions=4)
    other = remote()

    keyless = [other.append("orders", Event("a", n)).partition for n in range(8)]
    first = other.append("orders", Event("b"), idempotency_key="once")
    again = log.append("orders", Event("b"), idempotency_key="once")

    assert keyless == [0, 1, 2, 3, 0, 1, 2, 3]
    assert (again.is_repeat, again.offset) == (True, first.offset)
    record = next(iter(log.read("orders", 0, 0)))
    assert (record.key, record.event.headers) == (None, {})


def test_users_cannot_take_the_name_of_a_lane(log: Log) -> None:
    log.create_topic("orders")

    with pytest.raises(InvalidError, match="reserved"):
        log.append("orders", Event("a"), producer="__strandline.lane.x", sequence=0)


def test_a_put_whose_answer_is_lost_is_done_once(log: Log, remote: Callable[..., Log]) -> None:
    log.create_topic("orders")
    log.append("orders", Event("a"))
    other = remote()
    LosesAnswers(other, "put-key", 1)

    assert other.ack("orders", "mailer", 0, 1) == 1
    assert log.cursor("orders", "mailer", 0) == 1


def test_a_remote_log_has_what_its_token_allows(log: Log, switchboard: Switchboard) -> None:
    tokens = TokenTable(log)
    url = switchboard.serve(log, ServerSettings(needs_token=True))
    log.create_topic("orders", tenant="acme")
    log.create_topic("orders", tenant="rival")
    reader, _ = tokens.create(["read"], tenant="acme")
    writer, _ = tokens.create(["read", "append"], topics=["orders"], tenant="acme")

    for bad in (None, "slt_nope"):
        with pytest.raises(InvalidError, match="token"):
            RemoteStore(url, token=bad)
    with pytest.raises(InvalidError, match="does not allow this mode"):
        RemoteStore(url, token=reader)
    with Log(RemoteStore(url, token=writer)) as remote:
        assert remote.append("orders", Event("a")).offset == 0
        assert [(each.name, each.tenant) for each in remote.topics()] == [("orders", "acme")]
        listed = [(each.name, each.topic.tenant) for each in remote.scope("acme").topics()]
        assert listed == [("orders", "acme")]
        assert [each.tenant for each in remote.topics(tenant="acme")] == ["acme"]
        assert remote.topics(tenant="rival") == []
        with pytest.raises(StrandlineError, match="another tenant"):
            remote.topic("orders", tenant="rival")
        with pytest.raises(InvalidError, match="scope admin"):
            remote.trim("orders", 0, 1)
        with pytest.raises(InvalidError, match="scope admin"):
            remote.create_topic("more")
        with pytest.raises(InvalidError, match="scope consume"):
            remote.ack("orders", "mailer", 0, 1)
        for name in ("__strandline.tokens", "__strandline.schemas"):
            with pytest.raises(InvalidError):
                remote.append(name, Event("token.created", {}))
    assert log.marks(log.topic("orders", tenant="acme"), 0).high == 1
    assert log.marks(log.topic("orders", tenant="rival"), 0).high == 0


@pytest.mark.parametrize("tenant", [None, "acme", "globex"])
@pytest.mark.parametrize("whose", [None, "acme"])
def test_a_remote_scope_is_what_a_local_one_is_as_far_as_its_token_sees(
    log: Log, switchboard: Switchboard, whose: str | None, tenant: str | None
) -> None:
    url = switchboard.serve(log, ServerSettings(needs_token=True))
    token, _ = TokenTable(log).create(
        ["read", "append", "consume", "admin"], topics=["*"], tenant=whose
    )
    for each in (None, "acme", "globex"):
        log.scope(each).register(f"of-{each}", SCHEMA)
    local = log.scope(tenant)

    with Log(RemoteStore(url, token=token)) as remote:
        scope = remote.scope(tenant)
        seen = [each for each in local.topics() if whose in (None, each.tenant)]

        assert scope.topics() == seen
        for (topic,) in log.topics(), log.topics(tenant="acme"), log.topics(tenant="globex"):
            is_seen = topic in [found.topic for found in seen]
            for call in _calls_of(scope, topic):
                if is_seen:
                    call()
                else:
                    with pytest.raises(StrandlineError) as caught:
                        call()
                    assert f"of-{topic.tenant}" not in str(caught.value.fields.get("near"))
            if topic.tenant != tenant or not is_seen:
                for given in (topic.name, topic, topic.id):
                    with pytest.raises(StrandlineError):
                        scope.drop(given)
    assert [each.name for each in log.topics(tenant="acme")] == ["of-acme"]


def _calls_of(scope: Any, topic: Topic) -> list[Callable[[], object]]:
    def read(given: object) -> None:
        with scope.subscribe(given) as stream:
            stream.next(0)

    batch = pa.record_batch([[1]], schema=SCHEMA)
    return [
        call
        for given in (topic.name, topic)
        for call in (
            lambda given=given: scope.topic(given),
            lambda given=given: scope.publish(given, batch),
            lambda given=given: scope.publish_many(given, [batch]),
            lambda given=given: list(scope.replay(given)),
            lambda given=given: scope.consumers(given),
            lambda given=given: read(given),
        )
    ]


@pytest.mark.parametrize("tenant", [None, "globex"])
def test_a_token_of_a_tenant_registers_nothing_in_another_scope(
    log: Log, switchboard: Switchboard, tenant: str | None
) -> None:
    url = switchboard.serve(log, ServerSettings(needs_token=True))
    token, _ = TokenTable(log).create(["read", "append", "consume", "admin"], tenant="acme")

    with Log(RemoteStore(url, token=token)) as remote:
        with pytest.raises(StrandlineError, match="tenant"):
            remote.scope(tenant).register("orders", SCHEMA)
        remote.scope("acme").register("orders", SCHEMA)

    assert log.tenants() == ["acme"]
    assert log.topics() == []


def test_doctor_looks_at_a_server_with_the_rights_of_a_token(
    log: Log, switchboard: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(token: str | None) -> dict[str, tuple[str, str]]:
        if token is None:
            monkeypatch.delenv("STRANDLINE_TOKEN", raising=False)
        else:
            monkeypatch.setenv("STRANDLINE_TOKEN", token)
        return {each.check: (each.verdict, each.found) for each in examine(url)}

    url = switchboard.serve(log, ServerSettings(needs_token=True))
    tokens = TokenTable(log)
    writer, _ = tokens.create(["read", "append"], tenant="acme")
    reader, _ = tokens.create(["read"])

    assert found(writer)["rights"] == ("ok", "append, read on topics of tenant acme")
    assert found(writer)["server"] == ("ok", url)
    assert found(writer)["durability"][0] == "warning"
    assert found(reader)["rights"] == ("warning", "read")
    assert found(None) == {"server": ("failed", "not usable")}


@pytest.mark.slow
def test_a_token_for_some_names_creates_no_topic_of_a_tenant(
    log: Log, switchboard: Switchboard
) -> None:
    url = switchboard.serve(log, ServerSettings(needs_token=False))
    some, _ = TokenTable(log).create(["read", "append", "admin"], topics=["ord*"])

    with Log(RemoteStore(url, token=some)) as remote:
        with pytest.raises(StrandlineError, match="topics without a tenant"):
            remote.create_topic("orders", tenant="acme")
        remote.create_topic("orders")

        assert [(each.name, each.tenant) for each in remote.topics()] == [("orders", None)]
    assert log.tenants() == []


def test_claims_end_with_the_client_that_does_not_renew_them(log: Log) -> None:
    clock = FakeClock()
    topic = log.create_topic("orders")
    claims = RemoteClaims(parts_of(log).store, clock)
    place = ConsumerPlace(topic, None, "mailer", Partition(0))

    claims.take("first", place)
    claims.take("first", place)
    with pytest.raises(UnavailableError):
        claims.take("second", place)
    clock.advance(8)
    assert claims.renew(["first", "other"]) == ["other"]
    clock.advance(8)
    with pytest.raises(UnavailableError):
        claims.take("second", place)
    clock.advance(3)
    claims.take("second", place)

    assert claims.renew(["first", "second"]) == ["first"]


def test_two_remote_consumers_share_no_partition(log: Log, remote: Callable[..., Log]) -> None:
    log.create_topic("orders")
    log.append("orders", Event("a"))
    first, second = remote(), remote()

    with first.consumer("orders", "mailer", group=False) as consumer:
        with pytest.raises(UnavailableError):
            second.consumer("orders", "mailer", group=False)
        delivery = consumer.next(30)
        assert delivery is not None
    with second.consumer("orders", "mailer") as consumer:
        assert consumer.next(30) is not None


def test_bad_urls_and_options_are_refused() -> None:
    for url in ("http://", "http://user:secret@host", "http://host?x=1", "http://host:port"):
        with pytest.raises(InvalidError) as caught:
            sl.open(url, patience_s=0)
        assert "secret" not in str(caught.value)
    with pytest.raises(InvalidError, match="no such options"):
        sl.open("http://127.0.0.1:1", exclusive=True)
    with pytest.raises(InvalidError, match="token"):
        sl.open("http://127.0.0.1:1", token="two words", patience_s=0)  # noqa: S106 - No token.
    with pytest.raises(UnavailableError):
        sl.open("http://127.0.0.1:1", patience_s=0)


def test_another_web_server_at_the_address_of_a_log_is_named(
    log: Log, switchboard: Switchboard
) -> None:
    served = switchboard.serve(log)
    with ThreadingHTTPServer(("127.0.0.1", 0), _OtherServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        other = f"http://127.0.0.1:{server.server_address[1]}"

        statuses = (200, 302, 404, 405, 501)
        for url in (*(f"{other}/{status}" for status in statuses), f"{served}/console/"):
            with pytest.raises(InvalidError, match="no log is served at this URL") as caught:
                sl.open(url, patience_s=0)
            assert caught.value.fields["url"] == url.rstrip("/")

        server.shutdown()
        thread.join()


def test_a_message_that_no_log_would_send_is_refused(log: Log, switchboard: Switchboard) -> None:
    """A hostile client gets past no check that an embedded log makes."""
    topic = log.create_topic("orders")
    url = switchboard.serve(log)
    good = wire.WireDraft(None, wire.WireBody(b"1", "a"))

    def append(**changes: Any) -> wire.WireOutcome:
        given = wire.WireAppend([good], 1)
        for name, value in changes.items():
            setattr(given, name, value)
        call = wire.encode(wire.AppendCall(topic.id, 0, [given]))
        answer = httpx2.post(f"{url}/v1/store/append", content=call)
        outcome: wire.WireOutcome = wire.decode(wire.AppendReturn, answer.content).outcomes[0]
        return outcome

    assert append().problem is None
    bad = [
        wire.WireDraft(None, wire.WireBody(b"{", "a")),
        wire.WireDraft(None, wire.WireBody(b"NaN", "a")),
        wire.WireDraft(None, wire.WireBody(b"1", "")),
        wire.WireDraft(None, wire.WireBody(b"1", "a", b"[]")),
        wire.WireDraft(None, wire.WireBody(b"1", "a", b"{}", 1 << 62)),
        wire.WireDraft(None, wire.WireBody(b"1")),
    ]
    for each in bad:
        assert append(drafts=[each]).problem is not None, each
    assert append(drafts=[]).problem is not None
    assert append(producer="p", sequences=[]).problem is not None
    assert append(producer="p", sequences=[-1]).problem is not None
    assert append(producer="__strandline.x", sequences=[1]).problem is not None
    assert append(producer="p", sequences=[1], idempotency_key="k").problem is not None
    assert append(tenant="a/b").problem is not None
    assert append(level=9).problem is not None
    assert [each.payload for each in log.read("orders", 0, 0)] == [1]
    for call in (b"", b"\xff", b"\x90", b"\x91" * 5000):
        assert httpx2.post(f"{url}/v1/store/append", content=call).status_code == 400


def test_a_watch_names_only_what_is_gone(log: Log, switchboard: Switchboard) -> None:
    """A client no longer asks for what is gone, so nothing else may be called that."""
    stays, url = log.create_topic("stays"), switchboard.serve(log)
    seen = [(stays.id, 0, 0), (stays.id, 1, 0)]

    call = wire.encode(wire.WatchCall(seen, durable_only=False, wait_s=0))
    answer = httpx2.post(f"{url}/v1/store/watch", content=call)

    assert wire.decode(wire.WatchReturn, answer.content).ends == [(stays.id, 1, -1)]


def test_without_its_identity_an_append_would_be_stored_twice(
    log: Log, remote: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: what the tests of lost answers would notice."""
    log.create_topic("orders")
    monkeypatch.setattr(AppendRequest, "has_identity", True)
    other = remote()
    LosesAnswers(other, "append", 1)

    other.append("orders", Event("a"))

    assert len(list(log.read("orders", 0, 0))) == 2
