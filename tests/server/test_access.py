"""Every endpoint of the OpenAPI document, called without permission."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx2
import pytest

from strandline.log import Log
from strandline.server.app import ENDPOINTS, Application
from strandline.server.settings import ServerSettings
from strandline.server.tokens import EVERY_SCOPE, TokenScope, TokenTable
from strandline.testing import FakeClock
from strandline.triggers import Triggers
from strandline.values import Event, Record, StrandlineError
from strandline.views import LiveView, View
from tests.logs import memory_log
from tests.server.served import Served
from tests.server.waiting import wait_until

_PARTS = {
    "{topic}": "orders",
    "{partition}": "0",
    "{consumer}": "mailer",
    "{name}": "InvalidError",
    "{view}": "kinds",
    "{key}": "placed",
    "{stream}": "orders",
}
_OF_THE_SERVER = ("get_metrics", "get_metric_history")
_MAKE_STREAMS = ("tail_topic", "watch_topics")
_QUERIES = {"get_offset_at": {"place": "0"}}
_BODIES: dict[str, Any] = {
    "append_records": {"kind": "placed"},
    "trim_partition": {"before": 0},
    "ack_consumer": {"ends": {"0": 1}},
    "seek_consumer": {"places": {"0": 0}},
    "nack_consumer": {"leases": []},
    "extend_consumer": {"leases": []},
    "resolve_position": {"token": "AAAA"},
}


class Operation(NamedTuple):
    """One endpoint of the document."""

    name: str
    method: str
    path: str
    scope: str | None

    def send(self, http: httpx2.Client) -> httpx2.Response:
        """Send a request that would succeed, or nearly."""
        path = self.path
        for part, value in _PARTS.items():
            path = path.replace(part, value)
        body = _BODIES.get(self.name, {}) if self.method in ("POST", "PUT", "PATCH") else None
        request = http.build_request(
            self.method, path, params=_QUERIES.get(self.name, {}), json=body
        )
        answer = http.send(request, stream=True)
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer.read()
        answer.close()
        return answer


def operations(*, are_open: bool = False) -> list[Operation]:
    log = memory_log()
    document = Application(log)
    with httpx2.Client(
        transport=_Direct(document), base_url="http://127.0.0.1"
    ) as http:  # As anyone gets it.
        paths = http.get("/openapi.json").json()["paths"]
    log.close()
    found = []
    for path, methods in paths.items():
        for method, each in methods.items():
            scope = each["security"][0]["token"][0] if each["security"] else None
            if (scope is None) == are_open:
                found.append(Operation(each["operationId"], method.upper(), path, scope))
    return found


class _Direct(httpx2.BaseTransport):
    """Sends requests to an application, without a server."""

    def __init__(self, app: Application) -> None:
        self._app = app

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return asyncio.run(self._handle(request))

    async def _handle(self, request: httpx2.Request) -> httpx2.Response:
        inner = httpx2.ASGITransport(app=self._app)
        answer = await inner.handle_async_request(request)
        return httpx2.Response(answer.status_code, content=await answer.aread())


pytestmark = pytest.mark.slow

GUARDED = operations()
ids = [each.name for each in GUARDED]


class World(NamedTuple):
    """A server that needs tokens, over a log with a topic of each of three owners."""

    served: Served
    log: Log
    clock: FakeClock

    def token(self, *scopes: str, **more: Any) -> str:
        return self.served.server.app.tokens.create(scopes or EVERY_SCOPE, **more)[0]

    def state(self) -> list[Any]:
        """Return everything that a request could have changed."""
        found: list[Any] = []
        for tenant in (None, *self.log.tenants()):
            for topic in self.log.topics(tenant=tenant):
                described = self.log.describe_topic(topic)
                lags = [
                    (each.consumer, each.partition, each.cursor)
                    for each in self.log.consumers(topic, tenant=tenant)
                ]
                found.append((topic, described.settings, described.marks, lags))
        return found


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    clock = FakeClock()
    log = memory_log(clock=clock)
    for tenant in (None, "acme", "rival"):
        topic = log.create_topic("orders", tenant=tenant, proof=True)
        log.append(topic, Event("placed", tenant))
        log.append(topic, Event("placed", tenant))
        log.ack(topic, "mailer", 0, 1, tenant=tenant)
    TokenTable(log).create(["read"])
    view = LiveView(log, log.topic("orders", tenant="acme"), Kinds())
    view.reconcile([0])
    runner = Triggers(log)
    runner.on(log.topic("orders", tenant="acme"), name="labels")(lambda record: None)
    served = Served(log, ServerSettings(needs_token=True), views={"kinds": view}, triggers=[runner])
    yield World(served, log, clock)
    served.stop()
    view.close()
    log.close()


class Kinds(View[dict[str, int]]):
    """Counts the records of each kind."""

    def initial(self, _: int) -> dict[str, int]:
        return {}

    def apply(self, state: dict[str, int], record: Record) -> None:
        state[str(record.kind)] = state.get(str(record.kind), 0) + 1


@pytest.mark.parametrize("operation", GUARDED, ids=ids)
def test_without_a_valid_token_nothing_is_answered_or_done(
    operation: Operation, world: World
) -> None:
    before = world.state()
    valid = world.token()
    expired = world.token(expires_s=60)
    world.clock.advance(61)
    revoked, known = world.served.server.app.tokens.create(EVERY_SCOPE)
    world.served.server.app.tokens.revoke(known.id)

    for token in (None, "slt_" + "0" * 64, valid[:-1], valid + "0", expired, revoked):
        with world.served.client(token) as http:
            answer = operation.send(http)
        assert answer.status_code == 401, token
        assert operation.method == "HEAD" or answer.json()["title"] == "Unauthorized"
        assert "www-authenticate" in answer.headers
    for header in (f"Basic {valid}", valid, "Bearer", f"Bearer  {valid} {valid}"):
        with world.served.client() as http:
            http.headers["authorization"] = header
            assert operation.send(http).status_code == 401, header

    assert world.state() == before


@pytest.mark.parametrize("operation", GUARDED, ids=ids)
def test_a_token_without_the_scope_is_refused(operation: Operation, world: World) -> None:
    before = world.state()
    others = EVERY_SCOPE - {TokenScope(operation.scope or "")}

    with world.served.client(world.token(*others)) as http:
        answer = operation.send(http)

    assert answer.status_code == 403
    assert operation.method == "HEAD" or answer.json()["title"] == "Forbidden"
    assert world.state() == before


@pytest.mark.parametrize("operation", GUARDED, ids=ids)
def test_a_token_of_another_tenant_or_topic_sees_and_does_nothing(
    operation: Operation, world: World
) -> None:
    """A paired run: what it is answered does not depend on the other's topics."""
    before = world.state()
    tokens = [
        world.token(tenant="stranger"),
        world.token(tenant="acme", topics=["other*"]),
        world.token(topics=["other*"]),
    ]

    for token in tokens:
        with world.served.client(token) as http:
            answer = operation.send(http)
        if operation.name in _OF_THE_SERVER:
            assert answer.status_code == 403
        elif "{" in operation.path and operation.name not in ("put_topic", "put_stream"):
            assert answer.status_code == 404, answer.status_code
        text = "" if answer.is_stream_consumed is False else answer.text
        assert "placed" not in text or operation.name == "get_view_key"
        assert "labels" not in text
        assert str(world.log.topic("orders").id) not in text
        assert str(world.log.topic("orders", tenant="acme").id) not in text

    after = [each for each in world.state() if each[0].tenant != "stranger"]
    assert after == before
    for each in world.log.topics(tenant="stranger"):
        world.log.drop_topic(each)


@pytest.mark.parametrize("operation", GUARDED, ids=ids)
def test_a_token_with_the_scope_is_admitted(operation: Operation, world: World) -> None:
    """The same requests, allowed: else the tests above would prove nothing."""
    tenant = None if operation.name in _OF_THE_SERVER else "acme"
    if operation.name in ("delete_topic", "delete_stream"):
        world.log.create_topic("orders", tenant="tidy")
        tenant = "tidy"
    with world.served.client(world.token(str(operation.scope), tenant=tenant)) as http:
        answer = operation.send(http)

    assert answer.status_code not in (401, 403, 404, 405, 500), answer.text
    if operation.name == "delete_consumer":
        topic = world.log.topic("orders", tenant="acme")
        world.log.ack(topic, "mailer", 0, 1, tenant="acme")


def test_what_needs_no_token_shows_nothing_of_the_log(world: World) -> None:
    assert {each.name for each in operations(are_open=True)} == {
        "get_livez",
        "get_readyz",
        "get_error",
    }
    for each in operations(are_open=True):
        with world.served.client() as http:
            answer = each.send(http)
        assert answer.status_code == 200
        assert "orders" not in answer.text


def test_the_document_has_every_endpoint() -> None:
    names = {each.name for each in (*GUARDED, *operations(are_open=True))}

    assert names == {each.name for each in ENDPOINTS}


def test_tenants_do_not_see_each_other(world: World) -> None:
    """The same requests of two tenants, of the same names, and each has its own answers."""
    url = "/v1/topics/paired/partitions/0/records"
    tenants = ("left", "right")

    for tenant in tenants:
        with world.served.client(world.token(tenant=tenant)) as http:
            assert http.put("/v1/topics/paired", json={}).status_code == 201
            http.post("/v1/topics/paired/records", json={"kind": "a", "payload": tenant})
            http.post("/v1/topics/paired/consumers/c/ack", json={"ends": {"0": 1}})
    for tenant in tenants:
        with world.served.client(world.token(tenant=tenant)) as http:
            (record,) = http.get(url).json()["records"]
            (topic,) = http.get("/v1/topics").json()["topics"]
            (lag,) = http.get("/v1/lag").json()["topics"]

        assert (record["payload"], record["tenant"]) == (tenant, tenant)
        assert (topic["name"], topic["tenant"]) == ("paired", tenant)
        assert [each["tenant"] for each in lag["consumers"]] == [tenant]


_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9_-]{80,}")
"""Ids and tokens of places, which are random in each log."""
_TRIED_NAMES = ("orders", "order", "secret", "secrets", "__strandline.tokens", "prices")


def _life(served: Served, token: str) -> list[Any]:
    """Return all that a tenant is answered by every endpoint, over every name it may try."""
    seen: list[Any] = []
    with served.client(token) as http:
        for name in _TRIED_NAMES:
            for operation in GUARDED:
                if operation.name in _OF_THE_SERVER or operation.name in _MAKE_STREAMS:
                    continue
                answer = operation._replace(
                    path=operation.path.replace("{topic}", name).replace("{stream}", name)
                ).send(http)
                text = "" if answer.is_stream_consumed is False else answer.text
                shown = answer.headers.get("content-type")
                seen.append((name, operation.name, answer.status_code, shown, _ID.sub("#", text)))
    return seen


def test_what_a_tenant_is_answered_is_the_same_with_and_without_another() -> None:
    """A paired run over every endpoint of the document."""
    lives = []
    for has_rival in (False, True):
        with memory_log(clock=FakeClock()) as log:
            TokenTable(log)
            own = log.create_topic("orders", tenant="acme", partitions=2, proof=True)
            log.append(own, Event("placed", 1), partition=0)
            log.ack(own, "mailer", 0, 1, tenant="acme")
            if has_rival:
                for tenant in ("rival", None):
                    for name in ("orders", "secret", "prices"):
                        rival = log.create_topic(name, tenant=tenant, partitions=5)
                        log.append(rival, Event("hidden", "hidden"), partition=0)
                        log.ack(rival, "mailer", 0, 1, tenant=tenant)
            secret, _ = TokenTable(log).create(EVERY_SCOPE, tenant="acme")
            served = Served(log, ServerSettings(needs_token=True))
            lives.append(_life(served, secret))
            served.stop()

    assert len(lives[0]) > len(GUARDED)
    for alone, beside in zip(*lives, strict=True):
        assert alone == beside
    assert not any("hidden" in each[-1] for each in lives[1])


def test_a_pattern_of_topics_is_kept(log: Log, serve: Callable[..., Served]) -> None:
    for name in ("orders", "orders-eu", "secret"):
        log.create_topic(name)
    served = serve(log)
    token, _ = served.server.app.tokens.create(EVERY_SCOPE, topics=["orders*"])

    with served.client(token) as http:
        names = [each["name"] for each in http.get("/v1/topics").json()["topics"]]
        hidden, missing = http.get("/v1/topics/secret"), http.get("/v1/topics/sekret")
        made = http.put("/v1/topics/other", json={})
        lags = http.get("/v1/lag").json()["topics"]
        watched = http.get("/v1/watch", params={"topic": "secret"})

    assert names == ["orders", "orders-eu"]
    assert [each["topic"] for each in lags] == names
    assert hidden.text.replace("secret", "sekret") == missing.text
    assert (hidden.status_code, made.status_code, watched.status_code) == (404, 403, 404)


def test_a_token_is_kept_as_its_digest_alone(log: Log, serve: Callable[..., Served]) -> None:
    served = serve(log)
    secret, token = served.server.app.tokens.create(["read"])

    (record,) = log.read("__strandline.tokens", 0, 0)
    assert secret not in str(record.event.payload)
    assert token.digest in str(record.event.payload)
    assert secret[4:] not in repr(token)


def test_a_token_that_another_process_revokes_is_refused_at_once(
    log: Log, serve: Callable[..., Served]
) -> None:
    served = serve(log, ServerSettings(needs_token=False))
    elsewhere = TokenTable(log)
    secret, token = elsewhere.create(["read"])

    with served.client(secret) as http:
        assert http.get("/v1/log").status_code == 200
        elsewhere.revoke(token.id)
        assert http.get("/v1/log").status_code == 401


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    ["/v1/topics/orders/tail", "/v1/watch", "/v1/stream/orders?offset=now&live=sse"],
)
@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_a_stream_ends_with_its_token(serve: Callable[..., Served], path: str, end: str) -> None:
    """Else a token that was revoked because it had leaked would read on for ever."""
    clock = FakeClock()
    log = memory_log(clock=clock)
    log.create_topic("orders")
    served = serve(log, ServerSettings(needs_token=False))
    tokens = TokenTable(log)
    secret, token = tokens.create(["read"], expires_s=60)

    with served.client(secret) as http, http.stream("GET", path) as answer:
        lines = answer.iter_lines()
        before = [next(lines), next(lines)]
        if end == "revoked":
            tokens.revoke(token.id)
        else:
            clock.advance(61)
        log.append("orders", Event("secret", "hidden"))
        after = [each for each in lines if "hidden" in each or '"end":1' in each]
        refused = http.get(path)

    assert before
    assert after == []
    assert refused.status_code == 401
    log.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/topics/orders/partitions/0/records?wait=60"),
        ("GET", "/v1/stream/orders?offset=now&live=long-poll"),
        ("POST", "/v1/topics/orders/consumers/mailer/fetch"),
    ],
)
def test_what_waits_for_records_is_refused_if_its_token_was_revoked(
    log: Log, serve: Callable[..., Served], method: str, path: str
) -> None:
    log.create_topic("orders")
    served = serve(log, ServerSettings(needs_token=False))
    tokens = TokenTable(log)
    secret, token = tokens.create(["read", "consume"])
    answers: list[httpx2.Response] = []

    def ask() -> None:
        with served.client(secret, timeout=100) as http:
            body = {"wait": 60} if method == "POST" else None
            answers.append(http.request(method, path, json=body))

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: served.server.app.streams.count)
    tokens.revoke(token.id)
    log.append("orders", Event("secret", "hidden"))
    asking.join(100)

    assert [each.status_code for each in answers] == [401]
    assert "hidden" not in answers[0].text
    with served.client() as http:
        fetched = http.post("/v1/topics/orders/consumers/mailer/fetch", json={"wait": 60})
    assert [each["count"] for each in fetched.json()["deliveries"]] == [1]


def test_bad_tokens_are_not_made(log: Log) -> None:
    table = TokenTable(log)
    bad: list[Callable[[], object]] = [
        lambda: table.create([]),
        lambda: table.create(["root"]),
        lambda: table.create(["read"], topics=[]),
        lambda: table.create(["read"], topics=["a b"]),
        lambda: table.create(["read"], tenant="a/b"),
        lambda: table.create(["read"], expires_s=0),
        lambda: table.revoke("nope"),
    ]
    for make in bad:
        with pytest.raises(StrandlineError):
            make()
    assert table.list() == []
