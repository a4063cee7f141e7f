"""Fetching and settling over HTTP, as the consumer `crew`."""

import json
from typing import Any

import httpx2

from strandline.log import Log
from strandline.values import Event
from tests.server.raw_http import post


def fill(log: Log, topic: str, count: int, **settings: Any) -> None:
    log.create_topic(topic, **settings)
    for number in range(count):
        log.append(topic, Event("work", number, key=str(number)))


def fetch(http: httpx2.Client, topic: str, **body: Any) -> list[dict[str, Any]]:
    body = {"lease_s": 3600, **body}
    answer = http.post(f"/v1/topics/{topic}/consumers/crew/fetch", json=body)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["deliveries"]
    return found


def settle(http: httpx2.Client, topic: str, how: str, leases: list[str], **body: Any) -> list[str]:
    url = f"/v1/topics/{topic}/consumers/crew/{how}"
    answer = http.post(url, json={"leases": leases, **body})
    assert answer.status_code == 200, answer.text
    return [each["status"] for each in answer.json()["results"]]


def payloads(deliveries: list[dict[str, Any]]) -> list[Any]:
    return [each["record"]["payload"] for each in deliveries]


def leases(deliveries: list[dict[str, Any]]) -> list[str]:
    return [each["lease"] for each in deliveries]


def fetching(topic: str, **body: Any) -> bytes:
    """Return the bytes of a request that fetches."""
    given = json.dumps({"lease_s": 3600, **body}).encode()
    return post(given, path=f"/v1/topics/{topic}/consumers/crew/fetch")
