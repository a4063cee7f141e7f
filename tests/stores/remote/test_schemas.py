"""Versions of schemas over a remote log: of the topics that its token sees. See design 0102."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from strandline.log import Log
from strandline.server import ServerSettings, TokenTable
from strandline.stores.remote import RemoteStore
from strandline.typed import Delivered, DeliveredBatch, SchemaConflictError, SchemaMismatchError
from strandline.values import InvalidError
from tests.logs import memory_log
from tests.stores.remote.switchboard import Switchboard
from tests.stores.remote.test_store import LosesAnswers

FIRST = pa.schema([("id", pa.int64())])
SECOND = FIRST.append(pa.field("name", pa.string()))
THIRD = SECOND.append(pa.field("city", pa.string()))
EVERY = ("read", "append", "consume", "admin")


@pytest.fixture
def log() -> Iterator[Log]:
    with memory_log() as log:
        yield log


@pytest.fixture
def opened(log: Log, switchboard: Switchboard) -> Iterator[Callable[..., Log]]:
    """Open remote logs of `log` with a token of these terms."""
    url = switchboard.serve(log, ServerSettings(needs_token=True))
    logs: list[Log] = []

    def open_log(scopes: Sequence[str] = EVERY, **terms: Any) -> Log:
        token, _ = TokenTable(log).create(scopes, **terms)
        logs.append(Log(RemoteStore(url, token=token)))
        return logs[-1]

    yield open_log
    for each in logs:
        each.close()


def row(schema: pa.Schema, *values: Any) -> pa.RecordBatch:
    return pa.record_batch([[each] for each in values], schema=schema)


def rows(delivered: Delivered) -> list[dict[str, Any]]:
    assert isinstance(delivered, DeliveredBatch)
    found: list[dict[str, Any]] = delivered.batch.to_pylist()
    return found


TERMS = pytest.mark.parametrize(
    "terms",
    [{"tenant": "acme"}, {"topics": ["orders"]}, {}],
    ids=["a tenant's", "a topic's", "an operator's"],
)


@TERMS
def test_a_token_sees_rows_of_every_version_and_evolves_them(
    log: Log, opened: Callable[..., Log], terms: dict[str, Any]
) -> None:
    tenant = terms.get("tenant")
    local = log.scope(tenant)
    local.register("orders", FIRST)
    local.publish("orders", row(FIRST, 1))
    remote = opened(**terms).scope(tenant)
    waiting = remote.subscribe("orders")
    assert rows(next(waiting)) == [{"id": 1}]

    local.evolve("orders", SECOND)
    local.publish("orders", row(SECOND, 2, "b"))
    after = rows(next(waiting))
    found = [rows(each) for each in remote.replay("orders")]
    evolved = remote.evolve("orders", THIRD)
    remote.publish("orders", row(THIRD, 3, "c", "Bern"))
    waiting.close()

    assert after == [{"id": 2, "name": "b"}]
    assert found == [[{"id": 1, "name": None}], [{"id": 2, "name": "b"}]]
    assert evolved.versions == remote.topic("orders").versions == (FIRST, SECOND, THIRD)
    assert remote.topics()[-1].versions == (FIRST, SECOND, THIRD)
    assert local.topic("orders").versions == (FIRST, SECOND, THIRD)
    assert [len(rows(each)[0]) for each in local.replay("orders", version=2)] == [2, 2, 2]
    assert log.topics(tenant="acme", internal=True) == []


def test_versions_of_other_topics_do_not_show(log: Log, opened: Callable[..., Log]) -> None:
    """Not even by their number: versions of others neither delay nor refuse one's own."""
    for tenant in ("acme", "rival"):
        log.scope(tenant).register("orders", FIRST)
    remote = opened(tenant="acme").scope("acme")
    remote.topic("orders")

    log.scope("rival").evolve("orders", SECOND)

    assert remote.topic("orders").versions == (FIRST,)
    assert remote.evolve("orders", SECOND).versions == (FIRST, SECOND)
    with pytest.raises(SchemaMismatchError):
        remote.publish("orders", row(THIRD, 1, "a", "b"))


def test_what_evolves_nothing_raises_as_it_does_on_the_log_itself(
    log: Log, opened: Callable[..., Log]
) -> None:
    log.scope("acme").register("orders", FIRST)

    with pytest.raises(InvalidError, match="scope admin"):
        opened(["read", "append", "consume"], tenant="acme").scope("acme").evolve("orders", SECOND)
    with pytest.raises(SchemaConflictError, match="does not follow"):
        opened(tenant="acme").scope("acme").evolve("orders", pa.schema([("id", pa.string())]))
    with pytest.raises(InvalidError, match="no such topic"):
        opened(tenant="acme").scope("rival").evolve("orders", SECOND)

    assert log.scope("acme").topic("orders").versions == (FIRST,)


def test_tokens_that_evolve_at_once_add_each_version_once(
    log: Log, opened: Callable[..., Log]
) -> None:
    log.scope("acme").register("orders", FIRST)
    one, other = (opened(tenant="acme") for _ in range(2))
    one.scope("acme").topic("orders")
    other.scope("acme").evolve("orders", SECOND)
    LosesAnswers(one, "add-schema", 1)

    found = one.scope("acme").evolve("orders", THIRD)

    assert found.versions == (FIRST, SECOND, THIRD)
    assert log.scope("acme").topic("orders").versions == (FIRST, SECOND, THIRD)
