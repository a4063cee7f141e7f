"""Following topics over HTTP."""

import contextlib
import itertools
import threading
from collections.abc import Callable

import httpx2
import pytest

import strandline as sl
from strandline.log import Log
from strandline.server.resume import Epochs, positions_in, resume_token
from strandline.server.running import Address
from strandline.server.settings import ServerSettings
from strandline.server.tokens import TokenTable
from strandline.values import Epoch, Event, InvalidError, Offset
from tests.logs import file_log
from tests.server.events import Received, events_of
from tests.server.served import Served


def records(found: list[Received]) -> list[int]:
    return [each.data["payload"] for each in found if each.event == "record"]


def test_a_tail_has_what_there_is_and_what_comes(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    shared_log.append_many(topic, [Event("a", n) for n in range(3)])

    with http.stream("GET", f"/v1/topics/{topic}/tail", params={"start": "earliest"}) as answer:
        events = events_of(answer)
        before = list(itertools.islice(events, 4))
        shared_log.append(topic, Event("a", 3))
        after = next(events)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert records(before) == [0, 1, 2]
    assert before[3][:2] == ("caught_up", {"partition": 0, "offset": 3})
    assert records([after]) == [3]


def test_a_tail_continues_after_the_last_event_received(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic, partitions=3)
    for number in range(30):
        shared_log.append(topic, Event("a", number), partition=number % 3)
    url = f"/v1/topics/{topic}/tail"

    with http.stream("GET", url, params={"start": "earliest"}) as answer:
        first = list(itertools.islice(events_of(answer), 11))
    last_id = {"last-event-id": first[-1].id or ""}
    with http.stream("GET", url, headers=last_id) as answer:
        rest = list(itertools.islice(events_of(answer), 30 - len(records(first)) + 1))

    assert sorted(records(first) + records(rest)) == list(range(30))


def test_the_first_event_of_an_idle_tail_can_be_resumed_from(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    shared_log.append(topic, Event("a", 0))
    url = f"/v1/topics/{topic}/tail"

    with http.stream("GET", url) as answer:
        first = next(events_of(answer))
    shared_log.append(topic, Event("a", 1))
    with http.stream("GET", url, params={"after": first.id or ""}) as answer:
        second = next(events_of(answer))

    assert (first.event, records([second])) == ("caught_up", [1])


def test_a_resume_token_carries_the_epoch_of_what_was_seen(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    found = shared_log.create_topic(topic)
    shared_log.append(topic, Event("a", 0))
    (epoch,) = shared_log.epochs(topic, 0)

    with http.stream("GET", f"/v1/topics/{topic}/tail", params={"start": "earliest"}) as answer:
        event = next(events_of(answer))

    (position,) = positions_in(event.id or "")
    assert (position.log_id, position.topic_id, position.offset) == (shared_log.id, found.id, 1)
    assert (position.epoch, position.epoch_id) == (epoch.number, epoch.id)
    resolved = http.post("/v1/resolve", json={"token": event.id}).json()
    assert resolved == {"topic": topic, "offsets": {"0": 1}}


def test_a_token_of_lost_records_is_409_and_of_trimmed_ones_410(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    found = shared_log.create_topic(topic)
    shared_log.append_many(topic, [Event("a", n) for n in range(5)])
    (epoch,) = shared_log.epochs(topic, 0)
    lost = Epoch(epoch.number, shared_log.id, Offset(0))
    url = f"/v1/topics/{topic}/tail"

    other = http.get(url, params={"after": resume_token(shared_log.id, found, {0: (3, lost)})})
    shared_log.trim(topic, 0, 4)
    gone = http.get(url, params={"after": resume_token(shared_log.id, found, {0: (3, epoch)})})

    assert (other.status_code, other.json()["diverged_at"]) == (409, 0)
    assert (gone.status_code, gone.json()["oldest"]) == (410, 4)
    for bad in ("x", "AAAA", "lAHE", "\u00fc"):
        assert http.get(url, params={"after": bad}).status_code == 400


def test_tokens_that_are_damaged_are_invalid() -> None:
    for bad in ("", "=", "a" * 5000, "lAGgoJE"):
        with pytest.raises(InvalidError):
            positions_in(bad)


def test_a_predicate_selects_what_a_tail_sends(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    shared_log.append_many(topic, [Event("odd" if n % 2 else "even", n) for n in range(6)])

    params = {"start": "earliest", "predicate": "kind = 'odd'"}
    with http.stream("GET", f"/v1/topics/{topic}/tail", params=params) as answer:
        found = list(itertools.islice(events_of(answer), 3))

    assert records(found) == [1, 3, 5]


def test_a_tail_is_given_as_lines(http: httpx2.Client, shared_log: Log, topic: str) -> None:
    shared_log.create_topic(topic)
    shared_log.append(topic, Event("a", {"text": "one\ntwo"}))

    accept = {"accept": "application/x-ndjson"}
    with http.stream("GET", f"/v1/topics/{topic}/tail?start=0", headers=accept) as answer:
        line = next(answer.iter_lines())

    assert httpx2.Response(200, content=line).json()["data"]["payload"] == {"text": "one\ntwo"}


def test_a_dropped_topic_ends_its_tail_with_an_error(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)

    with http.stream("GET", f"/v1/topics/{topic}/tail") as answer:
        events = events_of(answer)
        next(events)
        shared_log.drop_topic(topic)
        last = list(events)

    assert [each.event for each in last] == ["error"]
    assert last[0].data["title"] == "DroppedError" or last[0].data["status"] == 404


@pytest.mark.slow
def test_a_tail_goes_on_after_the_log_of_its_server_did_not_answer(
    log: Log, serve: Callable[..., Served]
) -> None:
    """The token of its client cannot be looked up then, which does not make it invalid."""
    log.create_topic("orders")
    secret, _ = TokenTable(log).create(["read"])
    settings = ServerSettings(needs_token=False, ping_s=1.2)
    first = Served(log, settings)

    with sl.open(first.url, patience_s=0.2) as remote, contextlib.ExitStack() as ending:
        served = Served(remote, settings)
        ending.callback(served.stop)
        with (
            served.client(secret) as http,
            http.stream("GET", "/v1/topics/orders/tail") as answer,
        ):
            lines = answer.iter_lines()
            assert "event: caught_up" in lines
            first.stop()
            assert "event: ping" in lines
            assert "event: ping" in lines
            serve(log, settings, Address(port=httpx2.URL(first.url).port or 0))
            log.append("orders", Event("a", 1))

            assert "event: record" in lines


def test_watch_sends_ends_alone(http: httpx2.Client, shared_log: Log, topic: str) -> None:
    shared_log.create_topic(topic, partitions=2)
    shared_log.append(topic, Event("a"), partition=1)

    with http.stream("GET", "/v1/watch", params={"topic": topic}) as answer:
        events = events_of(answer)
        first = next(events)
        shared_log.append(topic, Event("a"), partition=0)
        second = next(events)

    assert first[:2] == ("end", {"topic": topic, "partition": 1, "end": 1})
    assert second[:2] == ("end", {"topic": topic, "partition": 0, "end": 1})


def test_a_server_that_ends_says_bye_to_its_streams(log: Log, serve: Callable[..., Served]) -> None:
    log.create_topic("orders")
    served = serve(log)
    endings: list[list[str]] = []
    started = threading.Barrier(4)

    def follow(url: str) -> None:
        with served.client() as http, http.stream("GET", url) as answer:
            started.wait(30)
            endings.append([each.event for each in events_of(answer)])

    urls = ["/v1/topics/orders/tail", "/v1/watch"]
    readers = [threading.Thread(target=follow, args=(url,)) for url in urls]
    waiting: list[httpx2.Response] = []

    def poll() -> None:
        with served.client() as http:
            started.wait(30)
            url = "/v1/topics/orders/partitions/0/records"
            waiting.append(http.get(url, params={"start": "latest", "wait": 60}))

    readers.append(threading.Thread(target=poll))
    for each in readers:
        each.start()
    started.wait(30)
    while log.metrics().subscriptions < 3:
        readers[0].join(0.005)
    served.stop()
    for each in readers:
        each.join(30)

    assert [each[-1] for each in endings] == ["bye", "bye"]
    assert [each.status_code for each in waiting] == [200]


def test_a_caller_has_only_so_many_streams(log: Log, serve: Callable[..., Served]) -> None:
    log.create_topic("orders")
    served = serve(log, ServerSettings(streams_per_token_max=1))

    with served.client() as http, http.stream("GET", "/v1/topics/orders/tail") as answer:
        events = events_of(answer)
        next(events)
        refused = http.get("/v1/topics/orders/tail")
        events.close()

    assert (refused.status_code, refused.json()["retryable"]) == (429, True)
    with served.client() as http:
        while True:  # The server learns of the end a moment later.
            with http.stream("GET", "/v1/topics/orders/tail") as answer:
                if answer.status_code == 200:
                    break


def test_a_token_has_only_so_many_requests_under_way(
    log: Log, serve: Callable[..., Served]
) -> None:
    log.create_topic("orders")
    served = serve(log, ServerSettings(requests_per_token_max=1))
    one, other = (served.server.app.tokens.create(["read", "append"])[0] for _ in range(2))
    url = "/v1/topics/orders/partitions/0/records"
    polled: list[httpx2.Response] = []

    def poll() -> None:
        with served.client(one) as http:
            polled.append(http.get(url, params={"wait": 60}))

    waiting = threading.Thread(target=poll)
    waiting.start()
    while not log.metrics().subscriptions:
        waiting.join(0.005)
    with served.client(one) as mine, served.client(other) as theirs:
        refused = mine.get("/v1/log")
        alive = mine.get("/livez")
        appended = theirs.post("/v1/topics/orders/records", json={"kind": "a"})
        waiting.join(60)
        after = mine.get("/v1/log")

    assert (refused.status_code, refused.json()["retryable"]) == (429, True)
    assert "retry-after" in refused.headers
    assert (alive.status_code, appended.status_code, after.status_code) == (200, 201, 200)
    assert len(polled[0].json()["records"]) == 1


@pytest.mark.slow
def test_a_slow_reader_is_cut_off_and_can_resume(log: Log, serve: Callable[..., Served]) -> None:
    log.create_topic("orders")
    log.append_many("orders", [Event("a", [n, "x" * 500_000]) for n in range(30)])
    served = serve(log, ServerSettings(slow_reader_s=0.2))
    url = "/v1/topics/orders/tail"

    with served.client() as http, http.stream("GET", url, params={"start": 0}) as answer:
        events = events_of(answer)
        found = [next(events)]
        while served.server.app.streams.count:
            threading.Event().wait(0.02)
        with contextlib.suppress(httpx2.HTTPError):  # It was cut within an event.
            found.extend(events)
    seen = [each.data["payload"][0] for each in found]
    with served.client() as http:
        last_id = {"last-event-id": found[-1].id or ""}
        with http.stream("GET", url, headers=last_id) as answer:
            rest = [
                each.data["payload"][0]
                for each in itertools.islice(events_of(answer), 30 - len(seen))
            ]

    assert 0 < len(seen) < 30
    assert seen + rest == list(range(30))


def test_epochs_of_other_processes_are_noticed(tmp_path: object, topic: str) -> None:
    """A token that named the epoch before a take-over would be refused as lost."""
    path = f"{tmp_path}/log"
    with file_log(path) as log:
        found = log.create_topic(topic)
        log.append(topic, Event("a", 0))
        epochs = Epochs(log)
        assert epochs.before(found, 0, 1) == log.epochs(topic, 0)[0]
    with file_log(path) as log, file_log(path, mode="read") as reader:
        epochs = Epochs(reader)
        before = epochs.before(found, 0, 1)
        log.append(topic, Event("a", 1))
        after = epochs.before(found, 0, 2)

        assert before == log.epochs(topic, 0)[0]
        assert after == log.epochs(topic, 0)[-1]
