"""Groups and work queues over HTTP, shared with members in Python."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from strandline.log import Log
from strandline.server.settings import ServerSettings
from strandline.testing import FakeClock
from strandline.values import Event
from tests.logs import memory_log
from tests.server.fetches import fetch, fill, leases, payloads, settle
from tests.server.served import Served
from tests.server.waiting import wait_until

pytestmark = pytest.mark.slow


def test_a_client_shares_the_records_of_a_topic_with_members_in_python(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    fill(shared_log, topic, 10)
    with shared_log.consumer(topic, "crew", shared=True) as member:
        first = fetch(http, topic, limit=4)
        other = member.fetch(3, 0)
        second = fetch(http, topic, limit=10)
        member.ack(other)
        results = settle(http, topic, "ack", leases(first + second))

    assert sorted(payloads(first + second) + [each.record.event.payload for each in other]) == list(
        range(10)
    )
    assert results == ["ok"] * 7
    (lag,) = http.get(f"/v1/topics/{topic}/consumers/crew").json()["consumers"]
    assert (lag["cursor"], lag["lag"]) == (10, 0)


def test_each_lease_has_a_result_of_its_own(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    fill(shared_log, topic, 3)
    found = leases(fetch(http, topic))
    settle(http, topic, "nack", found[1:2])
    with shared_log.consumer(topic, "crew", shared=True) as member:
        (again,) = member.fetch(1, 60)
        results = settle(http, topic, "ack", found)
        repeated = settle(http, topic, "ack", found)
        member.ack(again)

    assert (results, repeated) == (["ok", "lost", "ok"], ["ok", "lost", "ok"])


def test_a_lease_of_another_topic_is_lost_and_the_detail_says_what_to_do(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    fill(shared_log, topic, 1)
    found = leases(fetch(http, topic))
    shared_log.create_topic(f"{topic}-empty")

    answer = http.post(f"/v1/topics/{topic}-empty/consumers/crew/ack", json={"leases": found})

    (result,) = answer.json()["results"]
    assert result["status"] == "lost"
    assert result["detail"] == "the topic has no record for it, fetch again"


def test_a_nack_delivers_again_and_dead_letters_after_the_last_try(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    fill(shared_log, topic, 1)
    first = fetch(http, topic, deliveries_max=2)
    assert settle(http, topic, "nack", leases(first), reason="broken") == ["ok"]
    second = fetch(http, topic, deliveries_max=2, wait=60)
    assert [each["count"] for each in (*first, *second)] == [1, 2]

    assert settle(http, topic, "nack", leases(second), reason="broken") == ["dead_lettered"]
    letters = http.get(f"/v1/topics/{topic}/dead-letters").json()
    assert "broken" in str(letters)
    assert fetch(http, topic, deliveries_max=2) == []


def test_a_lease_of_a_silent_client_ends_and_an_extended_one_does_not(
    serve: Callable[..., Served], topic: str
) -> None:
    clock = FakeClock()
    log = memory_log(clock=clock)
    fill(log, topic, 2)
    with serve(log).client() as http:
        silent, kept = fetch(http, topic, lease_s=30)
        clock.advance(20)
        assert settle(http, topic, "extend", [kept["lease"]], lease_s=30) == ["ok"]
        clock.advance(20)
        again = fetch(http, topic, lease_s=30)
        results = settle(http, topic, "ack", [silent["lease"], kept["lease"]])
        ended = settle(http, topic, "ack", leases(again))

    assert payloads(again) == [silent["record"]["payload"]]
    assert (results, ended) == (["lost", "ok"], ["ok"])
    log.close()


def test_a_client_continues_after_a_restart_of_the_server(
    log: Log, serve: Callable[..., Served], topic: str
) -> None:
    """Leases of a work queue are kept in the log: they are settled by what they say."""
    fill(log, topic, 5)
    served = serve(log)
    with served.client() as http:
        found = leases(fetch(http, topic, limit=4))
    served.stop()
    with serve(log).client() as http:
        assert settle(http, topic, "extend", found[:1]) == ["ok"]
        assert settle(http, topic, "nack", found[1:2]) == ["ok"]
        assert settle(http, topic, "ack", [found[0], *found[2:]]) == ["ok"] * 3
        assert settle(http, topic, "ack", found[2:3]) == ["ok"]
        rest = fetch(http, topic, wait=60)
        assert settle(http, topic, "ack", leases(rest)) == ["ok"] * len(rest)
        if len(rest) == 1:
            more = fetch(http, topic, wait=60)
            rest += more
            settle(http, topic, "ack", leases(more))
        (lag,) = http.get(f"/v1/topics/{topic}/consumers/crew").json()["consumers"]

    assert sorted(payloads(rest)) == [1, 4]
    assert lag["cursor"] == 5


def test_a_wait_returns_with_what_comes(
    http: httpx2.Client, served: Served, shared_log: Log, topic: str
) -> None:
    fill(shared_log, topic, 0)
    with served.client() as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetch, other, topic, wait=60)
        wait_until(lambda: served.server.app.streams.count)
        shared_log.append(topic, Event("work", "now"))
        (found,) = waiting.result(120)

    assert found["record"]["payload"] == "now"


def test_a_group_shares_partitions_and_a_silent_member_gives_them_back(
    serve: Callable[..., Served], topic: str
) -> None:
    clock = FakeClock()
    log = memory_log(clock=clock)
    fill(log, topic, 0, partitions=2)
    for number in range(2):
        log.append(topic, Event("work", number), partition=number)
    with serve(log).client() as http:
        first = _all(http, topic, 2, kind="group", member="a", lease_s=30)
        assert settle(http, topic, "ack", leases(first)) == ["ok", "ok"]
        assert settle(http, topic, "ack", leases(first)) == ["ok", "ok"]
        # The client falls silent: what it had goes to a member in Python.
        with log.consumer(topic, "crew") as member:
            taken: list[int] = []

            def look() -> bool:
                clock.advance(1)
                taken.extend(each.record.event.payload for each in member.fetch(10, timeout_s=0))
                return len(member.assigned()) == 2

            wait_until(look)
            late = settle(http, topic, "ack", leases(first[:1]))
            for number in range(2):
                log.append(topic, Event("work", 2 + number), partition=number)
            wait_until(lambda: look() and len(taken) == 2)

    assert sorted(payloads(first)) == [0, 1]
    assert late == ["lost"]
    assert sorted(taken) == [2, 3]
    log.close()


def test_two_clients_of_a_group_share_its_partitions(
    serve: Callable[..., Served], topic: str
) -> None:
    clock = FakeClock()
    log = memory_log(clock=clock)
    fill(log, topic, 0, partitions=2)
    with serve(log).client() as http:
        seen: dict[str, set[int]] = {"a": set(), "b": set()}

        def look() -> bool:
            clock.advance(1)
            for number in range(2):
                log.append(topic, Event("work", number), partition=number)
            for name, partitions in seen.items():
                body = {"kind": "group", "member": name, "lease_s": 30}
                found = fetch(http, topic, **body)
                settle(http, topic, "ack", leases(found))
                partitions.clear()
                partitions.update(each["record"]["partition"] for each in found)
            return sorted(map(len, seen.values())) == [1, 1]

        wait_until(look)

    assert seen["a"] | seen["b"] == {0, 1}
    log.close()


def _all(http: httpx2.Client, topic: str, count: int, **body: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def look() -> bool:
        found.extend(fetch(http, topic, **body))
        return len(found) >= count

    wait_until(look)
    return found


def test_a_name_is_a_queue_or_a_group(http: httpx2.Client, shared_log: Log, topic: str) -> None:
    fill(shared_log, topic, 1)
    with shared_log.consumer(topic, "crew"):
        url = f"/v1/topics/{topic}/consumers/crew/fetch"
        answer = http.post(url, json={})

    assert answer.status_code == 503


@pytest.mark.parametrize(
    "body",
    [
        {"limit": 0},
        {"limit": 1001},
        {"wait": 61},
        {"lease_s": 0},
        {"kind": "group"},
        {"kind": "queue", "member": "a"},
        {"kind": "group", "member": "a", "order": "key"},
        {"deliveries_max": 0},
        {"where": "no predicate ("},
        {"unknown": 1},
    ],
)
def test_what_cannot_be_fetched_is_refused(
    http: httpx2.Client, shared_log: Log, topic: str, body: dict[str, Any]
) -> None:
    fill(shared_log, topic, 1)

    answer = http.post(f"/v1/topics/{topic}/consumers/crew/fetch", json=body)

    assert answer.status_code == 400
    assert list(shared_log.consumers(topic)) == []


@pytest.mark.parametrize("lease", ["", "%", "bm90IGpzb24=", "WzFd"])
def test_what_is_no_lease_is_refused(
    http: httpx2.Client, shared_log: Log, topic: str, lease: str
) -> None:
    fill(shared_log, topic, 1)
    for how in ("ack", "nack", "extend"):
        url = f"/v1/topics/{topic}/consumers/crew/{how}"
        assert http.post(url, json={"leases": [lease]}).status_code == 400


def test_a_lease_of_another_topic_settles_nothing(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    for name in (topic, f"{topic}-other"):
        fill(shared_log, name, 1)
    (mine,) = fetch(http, topic)
    (other,) = fetch(http, f"{topic}-other")

    assert settle(http, topic, "ack", [other["lease"]]) == ["lost"]
    assert settle(http, topic, "ack", [mine["lease"]]) == ["ok"]


def test_what_a_fetch_returns_is_bounded_by_bytes(
    log: Log, serve: Callable[..., Served], topic: str
) -> None:
    log.create_topic(topic)
    for _ in range(20):
        log.append(topic, Event("work", "x" * 100))
    with serve(log, ServerSettings(page_bytes_max=1000)).client() as http:
        found = fetch(http, topic, limit=20)

    assert 4 <= len(found) <= 10


@pytest.fixture
def two(log: Log, serve: Callable[..., Served]) -> Iterator[list[httpx2.Client]]:
    with serve(log).client() as one, serve(log).client() as other:
        yield [one, other]


def test_a_lease_is_settled_by_any_server_of_the_log(
    log: Log, two: list[httpx2.Client], topic: str
) -> None:
    fill(log, topic, 3)
    found = leases(fetch(two[0], topic))

    assert settle(two[1], topic, "ack", found) == ["ok"] * 3
    assert settle(two[0], topic, "ack", found) == ["ok"] * 3


# --- leases of a group ---


def test_a_group_delivers_again_what_a_client_has_not_settled_in_time(
    serve: Callable[..., Served], topic: str
) -> None:
    """A client that has died, and started again under its name, gets what it had, in order."""
    clock = FakeClock()
    log = memory_log(clock=clock)
    fill(log, topic, 3)
    body = {"kind": "group", "member": "a", "lease_s": 30}
    with serve(log).client() as http:
        first = _all(http, topic, 3, **body)
        log.append(topic, Event("work", 3))
        clock.advance(20)
        # The client lives: it continues asking, and acks one of them.
        later = _all(http, topic, 1, **body)
        acked = settle(http, topic, "ack", leases(first[1:2]))
        clock.advance(20)
        again = _all(http, topic, 2, **body)
        late = settle(http, topic, "ack", leases(first))
        log.append(topic, Event("work", 4))
        rest = _all(http, topic, 1, **body)
        results = settle(http, topic, "ack", leases([*again, *later, *rest]))
        (lag,) = http.get(f"/v1/topics/{topic}/consumers/crew").json()["consumers"]

    assert (payloads(first), payloads(later), acked) == ([0, 1, 2], [3], ["ok"])
    assert [(each["record"]["payload"], each["count"]) for each in again] == [(0, 2), (2, 2)]
    assert late == ["lost", "ok", "lost"]
    assert (payloads(rest), results) == ([4], ["ok"] * 4)
    assert (lag["cursor"], lag["lag"]) == (5, 0)
    log.close()


def test_a_lease_of_a_group_is_prolonged(serve: Callable[..., Served], topic: str) -> None:
    clock = FakeClock()
    log = memory_log(clock=clock)
    fill(log, topic, 2)
    body = {"kind": "group", "member": "a", "lease_s": 30}
    with serve(log).client() as http:
        kept, silent = _all(http, topic, 2, **body)
        assert settle(http, topic, "extend", [kept["lease"]], lease_s=100) == ["ok"]
        clock.advance(20)
        assert fetch(http, topic, **body) == []
        clock.advance(20)
        again = _all(http, topic, 1, **body)
        results = settle(http, topic, "ack", leases([kept, silent, *again]))

    assert payloads(again) == [1]
    assert results == ["ok", "lost", "ok"]
    log.close()


def test_a_record_of_a_group_whose_leases_all_end_is_dead_lettered(
    serve: Callable[..., Served], topic: str
) -> None:
    clock = FakeClock()
    log = memory_log(clock=clock)
    fill(log, topic, 1)
    body = {"kind": "group", "member": "a", "lease_s": 30, "deliveries_max": 2}
    with serve(log).client() as http:
        counts = [each["count"] for each in _all(http, topic, 1, **body)]
        clock.advance(20)
        assert fetch(http, topic, **body) == []
        clock.advance(20)
        counts += [each["count"] for each in _all(http, topic, 1, **body)]
        for _ in range(2):
            clock.advance(20)
            assert fetch(http, topic, **body) == []
        letters = http.get(f"/v1/topics/{topic}/dead-letters").json()

    assert counts == [1, 2]
    assert "lease" in str(letters)
    log.close()
