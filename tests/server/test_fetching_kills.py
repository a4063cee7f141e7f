"""A client of a work queue whose server is killed."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.processes import ServerProcess

CREW = "/v1/topics/jobs/consumers/crew"


@pytest.mark.slow
def test_a_client_continues_with_its_leases_after_its_server_was_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with ServerProcess(path) as first, first.client() as http:
        http.put("/v1/topics/jobs", json={})
        events = [{"kind": "job", "payload": number} for number in range(6)]
        http.post("/v1/topics/jobs/records", json=events)
        held = _fetch(http, limit=4)
        _settle(http, held[:1])
        first.kill()
        with ServerProcess(path, first.port) as second, second.client() as again:
            # The answer to the first ack may have been lost: it is sent with the others.
            results = _settle(again, held)
            rest = _fetch(again, limit=10)
            _settle(again, rest)
            (lag,) = again.get(CREW).json()["consumers"]

    assert results == ["ok"] * 4
    assert [each["record"]["payload"] for each in rest] == [4, 5]
    assert (lag["cursor"], lag["lag"]) == (6, 0)


def _fetch(http: httpx2.Client, **body: Any) -> list[dict[str, Any]]:
    answer = http.post(f"{CREW}/fetch", json={"lease_s": 3600, **body})
    found: list[dict[str, Any]] = answer.json()["deliveries"]
    return found


def _settle(http: httpx2.Client, deliveries: list[dict[str, Any]]) -> list[str]:
    answer = http.post(f"{CREW}/ack", json={"leases": [each["lease"] for each in deliveries]})
    return [each["status"] for each in answer.json()["results"]]
