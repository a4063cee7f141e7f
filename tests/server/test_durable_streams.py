"""Durable Streams over HTTP, as the protocol and the other faces see them."""

from collections.abc import Callable, Iterator

import httpx2
import pytest

from strandline.durable_streams import stream as stream_module
from strandline.durable_streams import writers as writers_module
from strandline.log import Log
from strandline.server.settings import ServerSettings
from strandline.server.tokens import EVERY_SCOPE
from strandline.testing import FakeClock
from strandline.values import Event
from tests.logs import memory_log
from tests.planting import Bug
from tests.server.served import Served

pytestmark = pytest.mark.slow

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
CLOSED = {"stream-closed": "true"}
_FORKED = (
    '{"content_type": "application/json", "fork": '
    '{"topic_id": "x", "name": "y", "base": 0, "offset": null, "sub_offset": 0}}'
)


@pytest.fixture
def path(topic: str) -> str:
    """The path of a stream that no other test has."""
    return f"/v1/stream/{topic}"


def producer(seq: int, epoch: int = 0, name: str = "p") -> dict[str, str]:
    return {**TEXT, "producer-id": name, "producer-epoch": str(epoch), "producer-seq": str(seq)}


def test_a_stream_is_made_appended_to_and_read(http: httpx2.Client, path: str) -> None:
    made = http.put(path, headers=TEXT)
    again = http.put(path, headers=TEXT)
    other = http.put(path, headers=JSON)
    first = http.post(path, headers=TEXT, content=b"one,")
    second = http.post(path, headers=TEXT, content=b"two")
    whole = http.get(path)
    rest = http.get(path, params={"offset": first.headers["stream-next-offset"]})

    assert (made.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert made.headers["location"].endswith(path)
    assert (first.status_code, second.status_code) == (204, 204)
    assert (whole.text, rest.text) == ("one,two", "two")
    assert whole.headers["content-type"] == "text/plain"
    assert whole.headers["stream-up-to-date"] == "true"
    assert whole.headers["stream-next-offset"] == second.headers["stream-next-offset"]
    assert first.headers["stream-next-offset"] < second.headers["stream-next-offset"]


@pytest.mark.parametrize(
    "settings",
    [
        "garbage",
        "[" * 60_000,
        '{"content_type": "text/plain\\r\\nx: y"}',
        '{"content_type": "application/json", "expires_at": "tomorrow"}',
        '{"content_type": "text/plain"}',
        _FORKED,
    ],
    ids=["garbage", "deep", "header", "time", "kind", "fork"],
)
def test_a_topic_whose_metadata_are_no_settings_is_not_a_stream(
    http: httpx2.Client, path: str, topic: str, settings: str
) -> None:
    made = http.put(f"/v1/topics/{topic}", json={"metadata": {"stream": settings}})
    assert made.status_code == 201, made.text

    answers = [
        http.request(method, path, headers=JSON) for method in ("GET", "PUT", "POST", "DELETE")
    ]
    dropped = http.delete(f"/v1/topics/{topic}")

    assert [each.status_code for each in answers] == [400] * 4
    assert all("delete it there" in each.json()["detail"] for each in answers)
    assert http.head(path).status_code == 404
    assert (dropped.status_code, http.put(path, headers=JSON).status_code) == (204, 201)


def test_other_faces_read_the_messages_and_append_some(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    path = f"/v1/stream/{topic}/lines"
    http.put(path, headers=JSON, content=b'[{"n": 1}, {"n": 2}]')

    name = f"{topic}..lines"
    shared_log.append(name, Event("typed", {"n": 3}))
    found = http.get(f"/v1/topics/{name}/partitions/0/records").json()["records"]

    assert [each["payload"] for each in found] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert http.get(path).json() == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "application/xhtml+xml"])
def test_a_browser_that_shows_a_message_runs_none_of_its_scripts(
    http: httpx2.Client, path: str, kind: str
) -> None:
    """They would be of the console's origin, and act with the session of its user."""
    script = b"<script>fetch('/v1/topics').then(console.log)</script>"
    http.put(path, headers={"content-type": kind})
    http.post(path, headers={"content-type": kind}, content=script)

    answers = [
        http.get(path),
        http.get(path, params={"offset": "-1", "live": "long-poll"}),
        http.get(path, params={"offset": "no-offset"}),
    ]

    assert [each.status_code for each in answers] == [200, 200, 400]
    for each in answers:
        directives = each.headers["content-security-policy"].split("; ")
        assert "sandbox" in directives  # Without allow-scripts, and with an origin of its own.
        assert "default-src 'none'" in directives


def test_a_topic_that_is_there_is_read_as_a_stream(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    shared_log.append(topic, Event("a", [1]))

    answer = http.get(f"/v1/stream/{topic}", params={"offset": "-1"})

    assert (answer.json(), answer.headers["content-type"]) == ([[1]], "application/json")
    assert http.post(f"/v1/stream/{topic}", headers=JSON, content=b"2").status_code == 204
    assert [each.event.payload for each in shared_log.read(topic, 0, 0)] == [[1], 2]


def test_a_topic_of_several_partitions_or_of_batches_is_no_stream(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic, partitions=2)
    shared_log.create_topic(f"{topic}-rows", value_kind="batch")

    for name in (topic, f"{topic}-rows"):
        answer = http.get(f"/v1/stream/{name}")
        assert answer.status_code == 400
        assert "/v1/topics" in answer.json()["detail"]


def test_numbers_of_json_are_kept_to_the_digit(http: httpx2.Client, path: str) -> None:
    text = b'[123456789012345678901234567890,1.10,{"b":1,"a":2}]'
    http.put(path, headers=JSON, content=text)

    assert http.get(path).content == text


def test_an_unpaired_surrogate_in_json_is_named(http: httpx2.Client, path: str) -> None:
    http.put(path, headers=JSON)

    answer = http.post(path, headers=JSON, content=rb'"\ud800"')

    assert (answer.status_code, "unpaired surrogate" in answer.text) == (400, True)


def test_a_producer_is_answered_by_the_rules_of_the_protocol(
    http: httpx2.Client, path: str
) -> None:
    http.put(path, headers=TEXT)
    sent = [
        http.post(path, headers=producer(seq, epoch), content=b"x")
        for epoch, seq in ((0, 0), (0, 0), (0, 2), (0, 1), (2, 1), (2, 0), (0, 2))
    ]

    assert [each.status_code for each in sent] == [200, 204, 409, 200, 400, 200, 403]
    assert sent[2].headers["producer-expected-seq"] == "1"
    assert sent[2].headers["producer-received-seq"] == "2"
    assert sent[6].headers["producer-epoch"] == "2"
    assert http.get(path).text == "xxx"


@pytest.mark.parametrize(
    "headers",
    [
        {"producer-id": "p"},
        {"producer-id": "p", "producer-epoch": "0"},
        {"producer-id": "", "producer-epoch": "0", "producer-seq": "0"},
        {"producer-id": "p", "producer-epoch": "-1", "producer-seq": "0"},
        {"producer-id": "p", "producer-epoch": "0", "producer-seq": "9007199254740992"},
        {"stream-seq": "s" * 201},
    ],
)
def test_a_writer_that_cannot_be_kept_is_refused_before_anything_is_stored(
    http: httpx2.Client, path: str, headers: dict[str, str]
) -> None:
    http.put(path, headers=TEXT)

    assert http.post(path, headers={**TEXT, **headers}, content=b"x").status_code == 400
    assert http.get(path).content == b""


def test_a_repeat_is_recognised_after_a_restart(
    log: Log, serve: Callable[..., Served], topic: str
) -> None:
    _send_twice_with_a_restart_between(log, serve, topic)


def test_a_producer_that_is_not_stored_with_its_append_is_found_out(
    log: Log, serve: Callable[..., Served], topic: str
) -> None:
    """A planted bug: what a producer said is known to the server's memory alone."""
    bug = Bug("no mark", writers_module, "mark_key", "_ + _", "None")
    with bug.planted(), pytest.raises(AssertionError):
        _send_twice_with_a_restart_between(log, serve, topic)


def _send_twice_with_a_restart_between(log: Log, serve: Callable[..., Served], topic: str) -> None:
    path = f"/v1/stream/{topic}"
    with serve(log).client() as http:
        http.put(path, headers=TEXT)
        http.post(path, headers=producer(0), content=b"a")
        http.post(path, headers={**producer(1), **CLOSED}, content=b"b")
    with serve(log).client() as http:
        again = http.post(path, headers={**producer(1), **CLOSED}, content=b"b")
        late = http.post(path, headers=producer(2), content=b"c")
        read = http.get(path)

    assert (again.status_code, late.status_code) == (204, 409)
    assert late.headers["stream-closed"] == "true"
    assert (read.text, read.headers["stream-closed"]) == ("ab", "true")


def test_what_is_known_of_writers_is_stored_now_and_then(
    log: Log, serve: Callable[..., Served], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start reads only what followed: what lies before may even be trimmed."""
    monkeypatch.setattr(stream_module, "_SNAPSHOT_RECORDS", 3)
    path = f"/v1/stream/{topic}"
    with serve(log).client() as http:
        http.put(path, headers=TEXT)
        for seq in range(4):
            http.post(path, headers=producer(seq), content=b"x")
    log.trim(topic, 0, 3, force=True)

    with serve(log).client() as http:
        repeat = http.post(path, headers=producer(2), content=b"x")
        following = http.post(path, headers=producer(4), content=b"y")
        gone = http.get(path, params={"offset": "0000000000000000_0000000000000000"})
        kept = http.get(path)

    assert (repeat.status_code, following.status_code) == (204, 200)
    assert (gone.status_code, kept.text) == (410, "xy")


def test_two_servers_of_one_log_append_in_turn(
    log: Log, serve: Callable[..., Served], topic: str
) -> None:
    path = f"/v1/stream/{topic}"
    with serve(log).client() as one, serve(log).client() as other:
        one.put(path, headers=TEXT)
        statuses = [
            http.post(path, headers=producer(seq), content=str(seq).encode()).status_code
            for http, seq in ((one, 0), (other, 1), (one, 1), (one, 2), (other, 3), (one, 3))
        ]
        other.post(path, headers=CLOSED)
        refused = one.post(path, headers=TEXT, content=b"x")

    assert statuses == [200, 200, 204, 200, 200, 204]
    assert refused.status_code == 409
    assert [each.value for each in log.read(topic, 0, 0, 4)] == [b"0", b"1", b"2", b"3"]


def test_a_stream_whose_first_messages_were_not_stored_is_made_again(
    log: Log, serve: Callable[..., Served], topic: str
) -> None:
    """As a kill between the topic and its first record leaves it."""
    path = f"/v1/stream/{topic}"
    settings = '{"content_type":"text/plain","has_beginning":true}'
    log.create_topic(topic, value_kind="bytes", metadata={"stream": settings})
    with serve(log).client() as http:
        before = http.get(path)
        made = http.put(path, headers=TEXT, content=b"all")
        after = http.get(path)

    assert (before.status_code, made.status_code, after.text) == (404, 201, "all")


def test_a_stream_that_is_too_large_to_begin_is_not_made(
    serve: Callable[..., Served], topic: str
) -> None:
    log = memory_log(record_bytes_max=100)
    with serve(log).client() as http:
        refused = http.put(f"/v1/stream/{topic}", headers=TEXT, content=b"x" * 101)
        missing = http.get(f"/v1/stream/{topic}")

    assert (refused.status_code, missing.status_code) == (413, 404)
    assert list(log.topics()) == []


# --- time ---


@pytest.fixture
def timed(serve: Callable[..., Served]) -> Iterator[tuple[Log, FakeClock, httpx2.Client]]:
    clock = FakeClock()
    log = memory_log(clock=clock)
    with serve(log).client() as http:
        yield log, clock, http


def test_a_stream_ends_once_it_was_not_used_for_its_time(
    timed: tuple[Log, FakeClock, httpx2.Client], topic: str
) -> None:
    log, clock, http = timed
    path = f"/v1/stream/{topic}"
    http.put(path, headers={**TEXT, "stream-ttl": "10"})
    for use in (http.get, lambda url: http.post(url, headers=TEXT, content=b"x")):
        clock.advance(9)
        assert use(path).is_success
    clock.advance(9)
    assert http.head(path).headers["stream-ttl"] == "10"
    clock.advance(2)

    assert http.head(path).status_code == 404
    assert topic not in {each.name for each in log.topics()}
    assert http.put(path, headers=JSON).status_code == 201


def test_a_restart_never_ends_a_stream_early(serve: Callable[..., Served], topic: str) -> None:
    clock = FakeClock()
    log = memory_log(clock=clock)
    path = f"/v1/stream/{topic}"
    with serve(log).client() as http:
        http.put(path, headers={**TEXT, "stream-ttl": "80"})
        for _ in range(20):
            clock.advance(5)
            http.get(path)
    with serve(log).client() as http:
        clock.advance(79)
        assert http.head(path).status_code == 200
        clock.advance(12)
        assert http.head(path).status_code == 404


def test_a_stream_that_no_one_asks_for_is_removed_with_the_next_that_is_made(
    timed: tuple[Log, FakeClock, httpx2.Client], topic: str
) -> None:
    log, clock, http = timed
    http.put(f"/v1/stream/{topic}", headers={**TEXT, "stream-expires-at": "2020-01-01T00:00:00Z"})
    http.put(f"/v1/stream/{topic}-idle", headers={**TEXT, "stream-ttl": "5"})
    clock.advance(3600)

    http.put("/v1/stream/other", headers=TEXT)

    assert [each.name for each in log.topics()] == ["other"]


# --- forks ---


def test_a_fork_has_what_was_there_and_its_own(http: httpx2.Client, path: str) -> None:
    http.put(path, headers=TEXT, content=b"abc")
    cut = http.put(
        f"{path}/cut",
        headers={
            "stream-forked-from": path,
            "stream-fork-offset": "0000000000000000_0000000000000000",
            "stream-fork-sub-offset": "2",
        },
    )
    http.put(f"{path}/whole", headers={"stream-forked-from": path})
    http.post(path, headers=TEXT, content=b"later")
    for name in ("cut", "whole"):
        http.post(f"{path}/{name}", headers=TEXT, content=b"+")

    assert cut.status_code == 201
    assert http.get(f"{path}/cut").text == "ab+"
    assert http.get(f"{path}/whole").text == "abc+"
    assert http.get(path).text == "abclater"


def test_a_source_is_kept_for_its_forks_and_goes_with_the_last(
    http: httpx2.Client, shared_log: Log, path: str, topic: str
) -> None:
    http.put(path, headers=TEXT, content=b"abc")
    http.put(f"{path}/fork", headers={"stream-forked-from": path})
    http.put(f"{path}/fork/fork", headers={"stream-forked-from": f"{path}/fork"})

    assert http.delete(path).status_code == 204
    assert http.delete(f"{path}/fork").status_code == 204
    assert http.get(path).status_code == 410
    assert http.put(path, headers=TEXT).status_code == 409
    assert http.get(f"{path}/fork/fork").text == "abc"

    http.delete(f"{path}/fork/fork")
    assert http.get(path).status_code == 404
    assert not [each for each in shared_log.topics() if each.name.startswith(topic + ".")]


def test_a_fork_whose_source_was_dropped_as_a_topic_has_its_own_messages(
    http: httpx2.Client, shared_log: Log, path: str, topic: str
) -> None:
    http.put(path, headers=TEXT, content=b"abc")
    fork = http.put(f"{path}/fork", headers={"stream-forked-from": path}, content=b"def")
    shared_log.drop_topic(topic)
    restarted = Served(shared_log)
    try:
        with restarted.client() as again:
            gone = again.get(f"{path}/fork", params={"offset": "0" * 16 + "_" + "0" * 16})
            kept = again.get(f"{path}/fork")
    finally:
        restarted.stop()

    assert fork.status_code == 201
    assert (gone.status_code, kept.text) == (410, "def")


# --- who may ---


def test_a_token_makes_and_forks_what_its_scopes_and_pattern_allow(
    log: Log, serve: Callable[..., Served]
) -> None:
    served = serve(log, ServerSettings(needs_token=False))
    tokens = served.server.app.tokens
    admin = tokens.create(["admin"], topics=["chats*"])[0]
    all_, _ = tokens.create(EVERY_SCOPE)
    with served.client(all_) as http:
        http.put("/v1/stream/secret", headers=TEXT, content=b"hidden")
    with served.client(admin) as http:
        made = http.put("/v1/stream/chats/1", headers=TEXT)
        filled = http.put("/v1/stream/chats/2", headers=TEXT, content=b"x")
        outside = http.put("/v1/stream/other", headers=TEXT)
    every = tokens.create(EVERY_SCOPE, topics=["chats*"])[0]
    with served.client(every) as http:
        forked = http.put("/v1/stream/chats/3", headers={"stream-forked-from": "/v1/stream/secret"})

    statuses = [each.status_code for each in (made, filled, outside, forked)]
    assert statuses == [201, 403, 403, 404]


def test_streams_of_tenants_are_apart(log: Log, serve: Callable[..., Served]) -> None:
    served = serve(log)
    for tenant in ("left", "right"):
        token = served.server.app.tokens.create(EVERY_SCOPE, tenant=tenant)[0]
        with served.client(token) as http:
            assert http.put("/v1/stream/a/b", headers=TEXT, content=tenant.encode()).is_success
            assert http.get("/v1/stream/a/b").text == tenant


def test_a_page_of_another_origin_may_ask_but_needs_a_token(http: httpx2.Client, path: str) -> None:
    http.put(path, headers=TEXT)
    origin = {"origin": "https://elsewhere.example"}
    asked = http.options(path, headers={**origin, "access-control-request-method": "GET"})
    refused = http.get(path, headers=origin)

    assert asked.status_code == 204
    assert "Authorization" in asked.headers["access-control-allow-headers"]
    assert refused.status_code == 421
    assert "access-control-allow-credentials" not in asked.headers
