"""While a large body is processed, the server answers other requests."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

import strandline as sl
from strandline.log import Log, parts_of
from strandline.server import appending, bodies, remote_appending
from tests.server.served import Served

WAIT_S = 60
_LINE = b'{"kind":"a","payload":1}'


class Gate:
    """Blocks the first thread that reaches it."""

    def __init__(self) -> None:
        self.is_inside = threading.Event()
        self.is_open = threading.Event()

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def held(*args: Any, **kwargs: Any) -> Any:
            self.is_inside.set()
            assert self.is_open.wait(WAIT_S)
            return call(*args, **kwargs)

        return held


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.is_open.set()


def lines(http: httpx2.Client) -> list[int]:
    answer = http.post(
        "/v1/topics/t/records",
        content=b"\n".join([_LINE] * 5000),
        headers={"content-type": "application/x-ndjson"},
    )
    return [each["offset"] for each in answer.json()["receipts"]]


def array(http: httpx2.Client) -> list[int]:
    answer = http.post("/v1/topics/t/records", content=b"[" + b",".join([_LINE] * 5000) + b"]")
    return [each["offset"] for each in answer.json()["receipts"]]


def remote(http: httpx2.Client) -> list[int]:
    with sl.open(str(http.base_url)) as log:
        receipts = log.append_many("t", [sl.Event("a", 1) for _ in range(5000)])
        return [each.offset for each in receipts]


SEAMS: dict[str, tuple[Callable[[httpx2.Client], list[int]], Callable[[Log], tuple[Any, str]]]] = {
    "lines are decoded": (lines, lambda _: (bodies, "event_of")),
    "an array is decoded": (array, lambda _: (bodies, "_decoded")),
    "values are appended": (lines, lambda log: (type(parts_of(log).store), "append")),
    "an answer is made": (lines, lambda _: (appending, "moment")),
    "values of a remote log are checked": (remote, lambda _: (remote_appending, "_draft")),
}


@pytest.mark.parametrize("seam", SEAMS)
def test_the_server_answers_while(
    seam: str,
    log: Log,
    serve: Callable[[Log], Served],
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append, place_of = SEAMS[seam]
    log.create_topic("t")
    served = serve(log)
    with served.client() as http:
        # The server knows the topic from now on, and need not look it up in a thread.
        http.post("/v1/topics/t/records", content=_LINE)
    owner, name = place_of(log)
    monkeypatch.setattr(owner, name, gate.around(getattr(owner, name)))
    found: list[int] = []
    with served.client() as http, served.client(timeout=WAIT_S / 2) as other:
        thread = threading.Thread(target=lambda: found.extend(append(http)))
        thread.start()
        try:
            assert gate.is_inside.wait(WAIT_S)
            answer = other.get("/livez")
        finally:
            gate.is_open.set()
            thread.join(WAIT_S)

    assert answer.status_code == 200
    assert found == list(range(1, 5001))
