"""Who may call what over Flight: the tokens, scopes and tenants of the HTTP interface."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyarrow import flight

from strandline.log import Log
from strandline.server.flight.sql_messages import closed
from strandline.server.settings import ServerSettings
from strandline.server.tokens import EVERY_SCOPE
from strandline.testing import FakeClock
from strandline.values import Event
from tests.logs import memory_log
from tests.server.flight.flights import (
    FlightServed,
    client_of,
    command,
    events,
    put,
    rows,
    ticket,
)

pytestmark = pytest.mark.slow

SQL = "select _tenant, payload from orders order by _offset"


def _statement(client: flight.FlightClient, sql: str = SQL) -> list[Any]:
    packed = closed("CommandStatementQuery", (1, sql))
    info = client.get_flight_info(flight.FlightDescriptor.for_command(packed))
    found: list[Any] = client.do_get(info.endpoints[0].ticket).read_all().to_pylist()
    return found


def _tables(client: flight.FlightClient) -> list[Any]:
    packed = closed("CommandGetTables", (5, 1))
    found: list[Any] = client.do_get(flight.Ticket(packed)).read_all().to_pylist()
    return found


def _prepare(client: flight.FlightClient) -> list[bytes]:
    body = closed("ActionCreatePreparedStatementRequest", (1, SQL))
    action = flight.Action("CreatePreparedStatement", body)
    return [each.body.to_pybytes() for each in client.do_action(action)]


def _ingest(client: flight.FlightClient) -> Any:
    packed = closed("CommandStatementIngest", (2, "orders"))
    sent = events("ingested")
    writer, answers = client.do_put(flight.FlightDescriptor.for_command(packed), sent.schema)
    with writer:
        writer.write_batch(sent)
        writer.done_writing()
        return answers.read().to_pybytes()


CALLS: dict[str, tuple[str, Callable[[flight.FlightClient], Any]]] = {
    "list_flights": ("read", lambda client: list(client.list_flights())),
    "get_flight_info": (
        "read",
        lambda client: client.get_flight_info(flight.FlightDescriptor.for_path("orders")),
    ),
    "do_get": ("read", lambda client: rows(client, "orders")),
    "do_put": ("append", lambda client: put(client, command("orders"), events("put"))),
    "statement": ("read", _statement),
    "tables": ("read", _tables),
    "prepare": ("read", _prepare),
    "ingest": ("append", _ingest),
}


class World(NamedTuple):
    """A server that needs tokens, over a log with a topic of each of three owners."""

    served: FlightServed
    log: Log
    clock: FakeClock

    def state(self) -> list[Any]:
        return [
            self.log.describe_topic(topic).marks
            for tenant in (None, *self.log.tenants())
            for topic in self.log.topics(tenant=tenant)
        ]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    clock = FakeClock()
    log = memory_log(clock=clock)
    for tenant in (None, "acme", "rival"):
        topic = log.create_topic("orders", tenant=tenant)
        log.append(topic, Event("placed", tenant))
    served = FlightServed(log, ServerSettings(needs_token=False))
    served.token()
    served.stop()
    served = FlightServed(log, ServerSettings(needs_token=True))
    yield World(served, log, clock)
    served.stop()
    log.close()


@pytest.mark.parametrize("name", CALLS)
def test_without_a_valid_token_nothing_is_answered_or_done(name: str, world: World) -> None:
    before = world.state()
    valid = world.served.token()
    expired = world.served.token(expires_s=60)
    world.clock.advance(61)
    tokens = world.served.server.app.tokens
    revoked, known = tokens.create(EVERY_SCOPE)
    tokens.revoke(known.id)

    for token in (None, "slt_" + "0" * 64, valid[:-1], valid + "0", expired, revoked):
        with (
            client_of(world.served, token) as client,
            pytest.raises(flight.FlightUnauthenticatedError) as caught,
        ):
            CALLS[name][1](client)
        assert "token" in str(caught.value)

    assert world.state() == before


@pytest.mark.parametrize("name", CALLS)
def test_a_token_without_the_scope_is_refused(name: str, world: World) -> None:
    before = world.state()
    scope, call = CALLS[name]
    others = [str(each) for each in EVERY_SCOPE if each != scope]

    with (
        client_of(world.served, world.served.token(*others)) as client,
        pytest.raises(flight.FlightUnauthorizedError, match=f"scope {scope}"),
    ):
        call(client)

    assert world.state() == before


@pytest.mark.parametrize("name", CALLS)
def test_a_token_of_another_tenant_or_topic_sees_and_does_nothing(name: str, world: World) -> None:
    before = world.state()
    tokens = [
        world.served.token(tenant="stranger"),
        world.served.token(tenant="acme", topics=["other*"]),
        world.served.token(topics=["other*"]),
    ]

    for token in tokens:
        with client_of(world.served, token) as client:
            if name in ("list_flights", "tables"):
                assert CALLS[name][1](client) == []
            else:
                with pytest.raises(flight.FlightServerError, match="there is no such topic"):
                    CALLS[name][1](client)

    assert world.state() == before


def test_get_schema_is_refused_with_an_explanation_and_no_path(world: World) -> None:
    """Arrow has no errors of Flight for this call, and would send a traceback."""
    refused = {
        "this token is unknown": "slt_0",
        "this needs a token with the scope read": world.served.token("append"),
        "there is no such topic": world.served.token(tenant="stranger"),
    }
    for words, token in refused.items():
        with (
            client_of(world.served, token) as client,
            pytest.raises((pa.ArrowException, OSError), match=words) as caught,
        ):
            client.get_schema(flight.FlightDescriptor.for_path("orders"))
        assert "service.py" not in str(caught.value)
        assert "site-packages" not in str(caught.value)


def test_a_token_of_a_tenant_reads_its_own_topic(world: World) -> None:
    with client_of(world.served, world.served.token(tenant="acme")) as client:
        assert [each["payload"] for each in rows(client, "orders")] == ['"acme"']
        assert _statement(client) == [{"_tenant": "acme", "payload": '"acme"'}]


def _seen(client: flight.FlightClient) -> list[Any]:
    """Return everything that a tenant gets to see over Flight, and what it may try besides."""
    found: list[Any] = [
        [(each.descriptor.path, each.schema, each.endpoints) for each in client.list_flights()],
        rows(client, "orders", columns=["_partition", "_offset", "kind", "payload"]),
        _statement(client, "select _offset, kind, payload from strandline.main.orders"),
        _tables(client),
        put(client, command("orders", idempotency_key="k"), events("own")),
    ]
    tried = [
        ticket("secret"),
        ticket("__strandline.tokens"),
        ticket("orders", partitions=[3]),
        ticket("orders", start=40),
    ]
    for each in tried:
        with pytest.raises(flight.FlightServerError) as caught:
            client.do_get(each).read_all()
        found.append(caught.value.extra_info)
    for sql in (
        "select * from secret",
        "select * from duckdb_tables()",
        "select table_name from information_schema.tables",
        "select * from rival.orders",
        "select * from sqlite_master",
    ):
        with pytest.raises(flight.FlightServerError) as caught:
            _statement(client, sql)
        found.append(caught.value.extra_info)
    return found


def test_what_a_tenant_sees_is_the_same_with_and_without_another(
    serve_flight: Callable[..., FlightServed],
) -> None:
    """A paired run."""
    seen = []
    for has_rival in (False, True):
        log = memory_log(clock=FakeClock())
        own = log.create_topic("orders", tenant="acme", partitions=2)
        log.append(own, Event("placed", 1), partition=1)
        if has_rival:
            log.append(log.create_topic("orders", tenant="rival", partitions=9), Event("a", 2))
            log.append(log.create_topic("secret", tenant="rival"), Event("a", 3))
            log.append(log.create_topic("orders"), Event("a", 4))
            log.create_topic("secrets")
        served = serve_flight(log)
        with client_of(served, served.token(tenant="acme")) as client:
            seen.append(_seen(client))
        served.stop()
        log.close()

    assert seen[0] == seen[1]
    assert seen[0][1][0]["payload"] == "1"


def test_a_call_that_comes_by_a_proxy_needs_a_token(shared_log: Log, client: Any) -> None:
    del shared_log
    for name in (b"via", b"x-forwarded-for"):
        options = flight.FlightCallOptions(headers=[(name, b"1")])
        with pytest.raises(flight.FlightUnauthenticatedError, match="proxy"):
            list(client.list_flights(options=options))


def test_a_token_is_in_no_line_of_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    secret = world.served.token()
    with client_of(world.served, secret) as client:
        rows(client, "orders")
        with pytest.raises(flight.FlightServerError):
            rows(client, "none")

    assert secret not in caplog.text


@pytest.fixture
def own(log: Log) -> Iterator[FlightServed]:
    """A server of this test's log."""
    log.create_topic("orders")
    served = FlightServed(log)
    yield served
    served.stop()


def test_a_stream_that_follows_ends_with_its_token(own: FlightServed, log: Log) -> None:
    secret, token = own.server.app.tokens.create(["read"])
    reader = client_of(own, secret).do_get(ticket("orders", follow=True))
    reader.read_chunk()  # Caught up.

    own.server.app.tokens.revoke(token.id)
    log.append("orders", Event("secret", "hidden"))

    with pytest.raises(flight.FlightUnauthenticatedError, match="revoked"):
        reader.read_chunk()


def test_a_put_ends_with_its_token(own: FlightServed, log: Log) -> None:
    secret, token = own.server.app.tokens.create(["append"])
    batch = events(1)
    descriptor = command("orders", receipts="batch")
    writer, answers = client_of(own, secret).do_put(descriptor, batch.schema)
    writer.write_batch(batch)
    assert answers.read() is not None

    own.server.app.tokens.revoke(token.id)
    writer.write_batch(batch)
    with pytest.raises(flight.FlightUnauthenticatedError, match="revoked"):
        writer.close()

    assert log.marks("orders", 0).high == 1
