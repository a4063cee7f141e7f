"""Quotas of tenants over HTTP: problem documents that say when to come again."""

from collections.abc import Callable

import pytest

from strandline.log import Log
from strandline.server.settings import ServerSettings
from strandline.server.tokens import TokenTable
from strandline.stores.remote import RemoteStore
from strandline.values import Event, QuotaError
from tests.server.served import Served

Serve = Callable[..., Served]


@pytest.fixture
def guarded(log: Log, serve: Serve) -> Served:
    """A server over a log of which one tenant may use little."""
    log.create_topic("orders", tenant="acme")
    TokenTable(log).create(["read"])
    return serve(log, ServerSettings(needs_token=True))


def token(served: Served) -> str:
    made: str = served.server.app.tokens.create(["read", "append", "admin"], tenant="acme")[0]
    return made


def test_a_rate_that_is_used_up_is_answered_429_with_when_to_come_again(
    log: Log, guarded: Served
) -> None:
    log.set_quota("acme", records_per_s=1)
    with guarded.client(token(guarded)) as http:
        first = http.post("/v1/topics/orders/records", json={"kind": "a"})
        second = http.post("/v1/topics/orders/records", json={"kind": "b"})

    assert (first.status_code, second.status_code) == (201, 429)
    problem = second.json()
    assert (problem["title"], problem["stored"]) == ("QuotaError", "no")
    assert problem["fields"]["quota"] == "records_per_s"
    assert second.headers["retry-after"] == "1"


@pytest.mark.slow
def test_bytes_and_topics_that_are_used_up_are_answered_507(log: Log, guarded: Served) -> None:
    log.set_quota("acme", bytes_max=10, topics_max=1)
    with guarded.client(token(guarded)) as http:
        appended = http.post("/v1/topics/orders/records", json={"kind": "a", "payload": "x" * 99})
        created = http.put("/v1/topics/more", json={})

    assert (appended.status_code, appended.json()["fields"]["quota"]) == (507, "bytes_max")
    assert (created.status_code, created.json()["fields"]["quota"]) == (507, "topics_max")
    assert appended.headers["retry-after"] == "60"


def test_a_remote_log_is_held_to_the_quota_where_the_log_is(log: Log, guarded: Served) -> None:
    log.set_quota("acme", bytes_max=100, topics_max=1)
    with Log(RemoteStore(guarded.url, token=token(guarded))) as remote:
        assert remote.append("orders", Event("a")).offset == 0
        large = Event("a", "x" * 200)

        with pytest.raises(QuotaError) as caught:
            remote.append("orders", large)
        with pytest.raises(QuotaError) as refused:
            remote.create_topic("more")

        error = caught.value
        assert (error.quota, error.limit, error.retry_after_s) == ("bytes_max", 100, None)
        assert refused.value.quota == "topics_max"
        with pytest.raises(Exception, match="set quotas on the server that has the log"):
            remote.set_quota("acme", bytes_max=None)
        with pytest.raises(Exception, match="cannot be erased in this store"):
            remote.erase("orders", key="a")
    assert log.marks(log.topic("orders", tenant="acme"), 0).high == 1
