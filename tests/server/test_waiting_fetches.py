"""Clients that wait for records of one member, and clients that have gone."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from strandline.log import Log
from strandline.server.app import Application
from strandline.values import Event
from tests.server.fetches import fetch, fetching, fill, payloads
from tests.server.raw_http import Connection
from tests.server.served import Served
from tests.server.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [{}, {"kind": "group", "member": "a"}], ids=["queue", "group"])
def test_each_wait_ends_at_its_own_deadline(
    http: httpx2.Client, served: Served, shared_log: Log, topic: str, kind: dict[str, str]
) -> None:
    fill(shared_log, topic, 0)
    with served.client(timeout=300) as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetch, other, topic, wait=60, **kind)
        wait_until(lambda: served.server.app.streams.count)
        beside = [fetch(http, topic, wait=wait, **kind) for wait in (0, 0.1, 0)]
        is_waiting = not waiting.done()
        shared_log.append(topic, Event("work", "now"))
        found = waiting.result(120)

    assert (beside, is_waiting) == ([[], [], []], True)
    assert payloads(found) == ["now"]


def test_records_go_to_each_waiting_client_in_turn(
    served: Served, shared_log: Log, topic: str
) -> None:
    fill(shared_log, topic, 0)
    with served.client(timeout=300) as http, ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(fetch, http, topic, wait=60, limit=2) for _ in range(3)]
        wait_until(lambda: served.server.app.streams.count == 3)
        shared_log.append_many(topic, [Event("work", number) for number in range(6)])
        found = [payloads(each.result(120)) for each in waiting]

    assert sorted(found) == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("kind", [{}, {"kind": "group", "member": "a"}], ids=["queue", "group"])
def test_a_client_that_has_gone_is_leased_nothing(
    http: httpx2.Client, served: Served, shared_log: Log, topic: str, kind: dict[str, str]
) -> None:
    fill(shared_log, topic, 0)
    for _ in range(3):
        with Connection(served) as leaving:
            leaving.write(fetching(topic, wait=60, deliveries_max=1, **kind))
            wait_until(lambda: served.server.app.streams.count)
        wait_until(lambda: not served.server.app.streams.count)
    shared_log.append(topic, Event("work", "now"))

    (found,) = fetch(http, topic, wait=60, deliveries_max=1, **kind)

    assert (found["record"]["payload"], found["count"]) == ("now", 1)


class Gone:
    """A client that sends one request of ASGI, and closes its connection when the test says."""

    def __init__(self, topic: str, **body: Any) -> None:
        head, _, self._body = fetching(topic, **body).partition(b"\r\n\r\n")
        path = head.split()[1].decode()
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        self.scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
        }
        self.has_gone = asyncio.Event()
        self.sent: list[Any] = []
        self._is_sent = False

    async def receive(self) -> dict[str, Any]:
        if not self._is_sent:
            self._is_sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self.has_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


@pytest.mark.parametrize("wait", [0, 60])
@pytest.mark.parametrize("kind", [{}, {"kind": "group", "member": "a"}], ids=["queue", "group"])
def test_what_a_lost_answer_held_is_delivered_at_once_and_not_counted(
    log: Log, topic: str, kind: dict[str, str], wait: int
) -> None:
    fill(log, topic, 3)

    async def scenario() -> list[tuple[int, int]]:
        app = Application(log)
        seen: list[tuple[int, int]] = []
        for number in range(6):
            client = Gone(topic, wait=wait if number < 3 else 60, deliveries_max=2, **kind)
            if number < 3:
                client.has_gone.set()
            await app(client.scope, client.receive, client.send)
            if number > 2:
                found = json.loads(client.sent[1]["body"])["deliveries"]
                seen += [(each["record"]["payload"], each["count"]) for each in found]
            if len(seen) == 3:
                break
        return seen

    assert asyncio.run(scenario()) == [(0, 1), (1, 1), (2, 1)]
