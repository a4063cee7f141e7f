"""The memory that one request can take in the server, whatever its content."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import strandline as sl
from strandline.log import wire
from strandline.values import REQUEST_RECORDS_MAX
from tests.server.processes import ServerProcess

HELD_MAX = 640 * 1024 * 1024
BODY = 32 * 1024 * 1024 - 1024

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]


def repeated(part: bytes, between: bytes = b",", size: int = BODY) -> bytes:
    return between.join([part] * (size // (len(part) + len(between))))


EVENTS = "/v1/topics/events/records"
CLOUD = b'{"id":"1","source":"s","type":"t","specversion":"1.0"}'
NESTED = b'{"kind":"a","payload":[' + repeated(b'{"":0}', size=15 * 1024 * 1024) + b"]}"
HOSTILE: dict[str, tuple[str, str, bytes, int]] = {
    "events": (EVENTS, "application/json", b"[" + repeated(b'{"kind":"a"}') + b"]", 413),
    "lines": (EVENTS, "application/x-ndjson", repeated(b'{"kind":"a"}', b"\n"), 413),
    "empty lines": (EVENTS, "application/x-ndjson", b"\n" * BODY, 201),
    "nested": (EVENTS, "application/json", NESTED, 201),
    "nested twice": (EVENTS, "application/json", b"[" + NESTED + b"," + NESTED + b"]", 201),
    "too large": (
        EVENTS,
        "application/json",
        b'{"kind":"a","payload":[' + repeated(b"{}") + b"]}",
        413,
    ),
    "cloud events": (
        EVENTS,
        "application/cloudevents-batch+json",
        b"[" + repeated(CLOUD) + b"]",
        413,
    ),
    "no cloud events": (
        EVENTS,
        "application/cloudevents-batch+json",
        b"[" + repeated(b"{}") + b"]",
        400,
    ),
    "numbers": (EVENTS, "application/json", b"[" + repeated(b"0") + b"]", 400),
    "bytes": (
        "/v1/topics/bytes/records",
        "application/json",
        b"[" + repeated(b'{"value":""}') + b"]",
        413,
    ),
    "messages": (
        "/v1/stream/numbers",
        "application/json",
        b"[" + repeated(b"0", size=4_000_000) + b"]",
        400,
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    path = str(tmp_path_factory.mktemp("served") / "log")
    with sl.open(f"file:{path}") as log:
        log.create_topic("events")
        log.create_topic("bytes", value_kind="bytes")
    with ServerProcess(path) as running:
        with running.client() as client:
            headers = {"content-type": "application/json"}
            assert client.put("/v1/stream/numbers", headers=headers).status_code == 201
        yield running


def held(server: ServerProcess, request: Callable[[], None]) -> int:
    """Return how much memory the server has taken for a request, at most at a time."""
    status = Path(f"/proc/{server.pid}/status")
    before = _kib(status, "VmRSS")
    # From here on, the kernel notes the highest again.
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    request()
    return (_kib(status, "VmHWM") - before) * 1024


def _kib(status: Path, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", status.read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_body_takes_a_stated_amount_of_memory(server: ServerProcess, name: str) -> None:
    url, media, body, status = HOSTILE[name]

    def send() -> None:
        with server.client(timeout=200) as client:
            answer = client.post(url, content=body, headers={"content-type": media})
        assert answer.status_code == status, answer.text[:300]

    assert held(server, send) < HELD_MAX


def test_as_many_events_as_may_be_take_no_more(server: ServerProcess) -> None:
    body = b"[" + b",".join([b'{"kind":"a"}'] * REQUEST_RECORDS_MAX) + b"]"

    def send() -> None:
        with server.client(timeout=200) as client:
            headers = {"content-type": "application/json"}
            assert client.post(EVENTS, content=body, headers=headers).status_code == 201

    assert held(server, send) < HELD_MAX


def test_a_message_of_a_remote_log_takes_no_more(server: ServerProcess, tmp_path: Path) -> None:
    with sl.open(server.url) as log:
        topic = log.topic("events").id
        with pytest.raises(sl.InvalidError, match="append fewer"):
            log.append_many("events", [sl.Event("a")] * (REQUEST_RECORDS_MAX + 1))
    draft = wire.WireDraft(None, wire.WireBody(b"0", "a"))
    drafts = [draft] * (BODY // len(msgspec.msgpack.encode(draft)))
    append = wire.WireAppend.__struct_fields__
    assert append[0] == "drafts"
    body = msgspec.msgpack.encode([topic, 0, [[drafts, 1]]])

    def send() -> None:
        with server.client(timeout=200) as client:
            headers = {"content-type": wire.MSGPACK}
            answer = client.post("/v1/store/append", content=body, headers=headers)
        assert answer.status_code in {400, 413}, answer.text[:300]

    assert held(server, send) < HELD_MAX
