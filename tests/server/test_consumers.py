"""Consumers, dead letters, lag, and other state of a topic, over HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pyarrow as pa
import pytest

from strandline.log import Log
from strandline.server.history import INTERVAL_S
from strandline.testing import FakeClock
from strandline.triggers import Triggers
from strandline.values import Event, Record
from strandline.views import LiveView, View
from tests.logs import memory_log
from tests.server.served import Served
from tests.server.waiting import wait_until


def filled(log: Log, topic: str, count: int = 10, **settings: Any) -> None:
    log.create_topic(topic, **settings)
    for number in range(count):
        log.append(topic, Event("placed", number), partition=0)


def parked(log: Log, topic: str, consumer: str = "mailer") -> None:
    """Make every record of a topic a dead letter of a consumer."""
    with log.consumer(topic, consumer, deliveries_max=1) as found:
        for _ in range(log.marks(topic, 0).high):
            delivery = found.next(60)
            assert delivery is not None
            found.nack(delivery, reason=f"cannot handle {delivery.record.payload}")


def test_consumers_show_where_they_are(http: httpx2.Client, shared_log: Log, topic: str) -> None:
    filled(shared_log, topic, partitions=2)

    made = http.post(f"/v1/topics/{topic}/consumers/mailer/ack", json={"ends": {"0": 4}})
    (one,) = http.get(f"/v1/topics/{topic}/consumers").json()["consumers"]

    assert made.json()["consumers"][0]["cursor"] == 4
    assert (one["consumer"], one["partition"], one["cursor"], one["lag"]) == ("mailer", 0, 4, 6)
    assert one["lag_s"] >= 0
    lags = {each["topic"]: each["consumers"] for each in http.get("/v1/lag").json()["topics"]}
    assert [each["cursor"] for each in lags[topic]] == [4]
    url = f"/v1/topics/{topic}/consumers/mailer"
    assert http.get(url).json()["consumers"][0]["cursor"] == 4
    assert http.delete(url).status_code == 204
    assert (http.get(url).status_code, http.delete(url).status_code) == (404, 404)


def test_an_ack_of_no_partition_or_beyond_the_end_is_refused(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    filled(shared_log, topic)
    url = f"/v1/topics/{topic}/consumers/mailer/ack"

    for ends, status in (({}, 400), ({"x": 1}, 400), ({"7": 1}, 400), ({"0": 99}, 416)):
        answer = http.post(url, json={"ends": ends})
        assert answer.status_code == status, (ends, answer.text)
    assert shared_log.consumers(topic) == []


def test_a_seek_shows_what_it_will_do_and_then_does_it(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    filled(shared_log, topic)
    shared_log.ack(topic, "mailer", 0, 6)
    url = f"/v1/topics/{topic}/consumers/mailer/seek"

    back = http.post(url, json={"places": {"0": 2}, "dry_run": True}).json()
    ahead = http.post(url, json={"places": {"0": "latest"}, "dry_run": True}).json()
    assert shared_log.cursor(topic, "mailer", 0) == 6
    done = http.post(url, json={"places": {"0": "-3"}}).json()

    expected = {"partition": 0, "cursor": 6, "offset": 2, "again": 4, "skipped": 0, "lag": 8}
    assert back["moves"] == [expected]
    assert back["consumers"][0]["cursor"] == 6
    assert (ahead["moves"][0]["skipped"], ahead["moves"][0]["again"]) == (4, 0)
    assert (done["dry_run"], done["consumers"][0]["cursor"]) == (False, 7)
    assert shared_log.cursor(topic, "mailer", 0) == 7


def test_a_seek_to_what_is_not_there_changes_nothing(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    filled(shared_log, topic, partitions=2)
    shared_log.append_many(topic, [Event("a", 1)], partition=1)
    shared_log.ack(topic, "mailer", 0, 6)
    shared_log.trim(topic, 0, 3)
    url = f"/v1/topics/{topic}/consumers/mailer/seek"

    for dry_run in (True, False):
        trimmed = http.post(url, json={"places": {"1": 0, "0": 1}, "dry_run": dry_run})
        beyond = http.post(url, json={"places": {"1": 0, "0": 11}, "dry_run": dry_run})
        assert (trimmed.status_code, trimmed.json()["oldest"]) == (410, 3)
        assert beyond.status_code == 416
    assert [each.partition for each in shared_log.consumers(topic)] == [0]


def test_deliveries_that_are_not_settled_are_counted(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    filled(shared_log, topic, 3)
    url = f"/v1/topics/{topic}/consumers/mailer/deliveries"
    assert http.get(url).status_code == 404

    with shared_log.consumer(topic, "mailer", deliveries_max=9) as consumer:
        for _ in range(2):
            delivery = consumer.next(60)
            assert delivery is not None
            consumer.nack(delivery)
        found = wait_until(
            lambda: [
                each for each in http.get(url).json().get("outstanding", []) if each["offset"] == 0
            ]
        )

    assert found[0]["partition"] == 0
    assert found[0]["deliveries"] >= 1


def test_dead_letters_are_counted_listed_and_redriven_after_a_dry_run(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    filled(shared_log, topic, 3)
    parked(shared_log, topic)
    url = f"/v1/topics/{topic}/dead-letters"

    def counted() -> dict[str, Any]:
        topics = http.get("/v1/dead-letters").json()["topics"]
        return next(each for each in topics if each["topic"] == topic)

    first = http.get(url, params={"limit": 2}).json()
    rest = http.get(url, params={"after": first["next"]}).json()
    letters = [*first["dead_letters"], *rest["dead_letters"]]
    assert [each["reason"] for each in letters] == [f"cannot handle {n}" for n in range(3)]
    assert [each["payload"] for each in letters] == [0, 1, 2]
    assert all(each["dead_lettered_at"].endswith("Z") for each in letters)
    assert rest["next"] is None
    assert counted() == {"topic": topic, "kept": 3, "waiting": 3}

    wanted = {"offsets": [letters[1]["offset"]]}
    plan = http.post(f"{url}/redrive", json=wanted).json()
    assert (plan["dry_run"], [each["payload"] for each in plan["dead_letters"]]) == (True, [1])
    assert counted()["waiting"] == 3
    done = http.post(f"{url}/redrive", json={**wanted, "dry_run": False}).json()
    again = http.post(f"{url}/redrive", json={**wanted, "dry_run": False}).json()
    assert [each["payload"] for each in done["dead_letters"]] == [1]
    assert again["dead_letters"] == []
    assert counted() == {"topic": topic, "kept": 3, "waiting": 2}
    assert http.get(url, params={"consumer": "other"}).json()["dead_letters"] == []


def test_a_dry_run_names_a_consumer_that_is_gone(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    filled(shared_log, topic, 1)
    parked(shared_log, topic)
    shared_log.delete_consumer(topic, "mailer")

    answer = http.post(f"/v1/topics/{topic}/dead-letters/redrive", json={})

    assert answer.status_code == 400
    assert "mailer" in answer.json()["detail"]


def test_a_trim_keeps_what_a_consumer_has_not_acked(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    filled(shared_log, topic)
    shared_log.ack(topic, "mailer", 0, 4)
    url = f"/v1/topics/{topic}/partitions/0/trim"

    kept = http.post(url, json={"before": 8}).json()
    assert (kept["removed"], kept["low"], kept["held_at"]) == (4, 4, 4)
    forced = http.post(url, json={"before": 8, "force": True}).json()
    assert (forced["removed"], forced["low"], forced["remaining"]) == (4, 8, 2)
    assert http.get(f"/v1/topics/{topic}/partitions/0").json()["low"] == 8
    assert http.post(url, json={"before": 11}).status_code in (400, 416)


def test_a_proof_is_shown_and_a_changed_history_does_not_pass(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    filled(shared_log, topic, proof=True)
    url = f"/v1/topics/{topic}/partitions/0"

    head = http.get(f"{url}/proof").json()
    sound = http.post(f"{url}/verify", json={"expected": [head]}).json()
    forged = {**head, "digest": "0" * len(head["digest"])}
    other = http.post(f"{url}/verify", json={"expected": [forged]}).json()
    assert (sound["is_sound"], sound["is_proved"], sound["records"]) == (True, True, 10)
    assert (other["is_sound"], len(other["findings"])) == (False, 1)
    plain = f"{topic}-plain"
    filled(shared_log, plain, 1)
    assert http.get(f"/v1/topics/{plain}/partitions/0/proof").status_code == 400


def test_segments_epochs_and_retention_are_shown(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    filled(shared_log, topic, retention_age_s=3600)
    url = f"/v1/topics/{topic}"

    retention = http.get(f"{url}/retention").json()
    epochs = http.get(f"{url}/partitions/0/epochs").json()["epochs"]

    assert (retention["retention_age_s"], retention["held"]) == (3600, [])
    assert [each["start"] for each in epochs] == [0]
    assert "segments" in http.get(f"{url}/partitions/0/segments").json()


def test_versions_of_a_schema_come_with_their_difference(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    scope = shared_log.scope()
    scope.register(topic, pa.schema([("id", pa.int32())]))
    scope.evolve(topic, pa.schema([("id", pa.int64()), ("note", pa.string())]))
    plain = f"{topic}-plain"
    shared_log.create_topic(plain)

    first, second = http.get(f"/v1/topics/{topic}/schemas").json()["versions"]

    assert (first["version"], first["added"], first["widened"]) == (1, [], {})
    assert (second["added"], second["widened"]) == (["note"], {"id": "int32"})
    assert [each["type"] for each in second["fields"]] == ["int64", "string"]
    assert http.get(f"/v1/topics/{plain}/schemas").json()["versions"] == []


class Totals(View[dict[str, int]]):
    """Adds up payloads by key."""

    def initial(self, _: int) -> dict[str, int]:
        return {}

    def apply(self, state: dict[str, int], record: Record) -> None:
        state[str(record.key)] = state.get(str(record.key), 0) + record.payload


class Latest(View[list[int]]):
    """Has no keys."""

    def initial(self, _: int) -> list[int]:
        return []

    def apply(self, state: list[int], record: Record) -> None:
        state.append(record.payload)


@pytest.fixture
def working(log: Log) -> Iterator[Served]:
    """A server of a process that has views and a trigger."""
    log.create_topic("orders")
    triggers = Triggers(log)

    @triggers.on("orders", name="labels", retry=[])
    def label(record: Record) -> None:
        if record.payload == 13:
            raise ValueError("no label")

    with LiveView(log, "orders", Totals()) as totals, LiveView(log, "orders", Latest()) as latest:
        totals.reconcile([0])
        latest.reconcile([0])
        with triggers:
            views = {"totals": totals, "latest": latest}
            served = Served(log, views=views, triggers=[triggers])
            yield served
            served.stop()


def test_views_of_the_process_answer_what_they_have_seen(log: Log, working: Served) -> None:
    for number in (1, 2, 13):
        log.append("orders", Event("placed", number, key="a"))

    with working.client() as http:
        answer = wait_until(
            lambda: [
                each
                for each in [http.get("/v1/views/totals/a", params={"at_least": 2})]
                if each.status_code == 200
            ]
        )[0].json()
        behind = http.get("/v1/views/totals/a", params={"at_least": 99})
        nothing = http.get("/v1/views/totals/b").json()
        views = {each["name"]: each for each in http.get("/v1/views").json()["views"]}
        refused = [http.get(f"/v1/views/{path}").status_code for path in ("nope/a", "latest/a")]

    assert (answer["value"], answer["partition"]) == (16, 0)
    assert nothing["value"] is None
    assert (behind.status_code, behind.json()["fields"]["partition"]) == (503, 0)
    assert views["totals"]["is_running"]
    assert views["totals"]["partitions"][0]["readiness"] == "ready"
    assert refused == [404, 400]


def test_triggers_of_the_process_show_what_they_have_done(log: Log, working: Served) -> None:
    for number in (1, 13):
        log.append("orders", Event("placed", number))

    with working.client() as http:
        (shown,) = wait_until(
            lambda: [
                each
                for each in http.get("/v1/triggers").json()["triggers"]
                if each["handled"] and each["dead_lettered"]
            ]
        )

    assert (shown["name"], shown["topic"], shown["is_running"]) == ("labels", "orders", True)
    assert (shown["handled"], shown["dead_lettered"]) == (1, 1)


def test_what_was_counted_is_kept_for_an_hour() -> None:
    clock = FakeClock()
    log = memory_log(clock=clock)
    log.create_topic("orders")
    served = Served(log)
    try:
        with served.client() as http:
            log.append_many("orders", [Event("a", n) for n in range(5)])
            log.ack("orders", "mailer", 0, 2)
            clock.advance(INTERVAL_S)
            samples = http.get("/v1/metrics/history").json()["samples"]
            clock.advance(2 * 3600)
            kept = http.get("/v1/metrics/history").json()["samples"]
    finally:
        served.stop()
        log.close()

    assert (samples[-1]["records"], samples[-1]["lag"], samples[-1]["topics"]) == (5, 3, 1)
    assert [each["at"] for each in samples] == sorted(each["at"] for each in samples)
    assert len(kept) == 3600 / INTERVAL_S
    assert samples[0]["at"] < kept[0]["at"]
