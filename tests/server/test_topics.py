"""Topics over HTTP."""

import httpx2

from strandline.log import Log


def test_a_log_describes_itself(http: httpx2.Client, shared_log: Log) -> None:
    found = http.get("/v1/log").json()

    assert found["id"] == str(shared_log.id)
    assert found["durability_max"] == "applied"
    assert "read" in found["scopes"]


def test_put_creates_a_topic_once(http: httpx2.Client, topic: str) -> None:
    wanted = {"partitions": 2, "retention_age_s": 60, "metadata": {"team": "a"}}

    made = http.put(f"/v1/topics/{topic}", json=wanted)
    again = http.put(f"/v1/topics/{topic}", json=wanted)
    other = http.put(f"/v1/topics/{topic}", json={"partitions": 3})

    assert made.status_code == 201
    assert made.json()["metadata"] == {"team": "a"}
    assert [each["partition"] for each in made.json()["partitions"]] == [0, 1]
    assert (again.status_code, again.json()) == (200, made.json())
    assert other.status_code == 409
    assert other.json()["fields"]["partitions_asked"] == 3


def test_topics_are_listed_in_pages(http: httpx2.Client, topic: str) -> None:
    for number in range(3):
        http.put(f"/v1/topics/{topic}-{number}", json={})

    first = http.get("/v1/topics", params={"prefix": topic, "limit": 2}).json()
    rest = http.get("/v1/topics", params={"prefix": topic, "after": first["next"]}).json()

    assert [each["name"] for each in first["topics"]] == [f"{topic}-0", f"{topic}-1"]
    assert [each["name"] for each in rest["topics"]] == [f"{topic}-2"]
    assert rest["next"] is None


def test_patch_changes_only_what_is_named(http: httpx2.Client, topic: str) -> None:
    http.put(f"/v1/topics/{topic}", json={"retention_age_s": 60, "retention_bytes": 1000})

    changed = http.patch(f"/v1/topics/{topic}", json={"retention_age_s": None}).json()

    assert (changed["retention_age_s"], changed["retention_bytes"]) == (None, 1000)


def test_a_dropped_topic_is_gone_and_may_come_again(http: httpx2.Client, topic: str) -> None:
    http.put(f"/v1/topics/{topic}", json={})
    event = {"kind": "placed"}
    assert http.post(f"/v1/topics/{topic}/records", json=event).status_code == 201

    assert http.delete(f"/v1/topics/{topic}").status_code == 204

    assert http.get(f"/v1/topics/{topic}").status_code == 404
    assert http.post(f"/v1/topics/{topic}/records", json=event).status_code == 404
    http.put(f"/v1/topics/{topic}", json={"kind": "bytes"})
    again = http.post(
        f"/v1/topics/{topic}/records",
        content=b"x",
        headers={"content-type": "application/octet-stream"},
    )
    assert again.json()["receipts"][0]["offset"] == 0


def test_a_topic_that_comes_again_as_another_takes_what_that_takes(
    http: httpx2.Client, shared_log: Log, topic: str
) -> None:
    """The server remembers what topics take, and others change them."""
    url, octets = f"/v1/topics/{topic}/records", {"content-type": "application/octet-stream"}
    shared_log.create_topic(topic)
    assert http.post(url, json={"kind": "placed"}).status_code == 201

    shared_log.drop_topic(topic)
    shared_log.create_topic(topic, value_kind="bytes")
    taken = http.post(url, content=b"x", headers=octets)
    shared_log.drop_topic(topic)
    shared_log.create_topic(topic, partitions=2)
    refused = http.post(url, content=b"x", headers=octets)
    again = http.post(url, json={"kind": "placed"}, params={"partition": 1})

    assert (taken.status_code, refused.status_code) == (201, 415)
    assert again.json()["receipts"][0]["partition"] == 1


def test_an_unknown_topic_names_those_with_similar_names(http: httpx2.Client, topic: str) -> None:
    http.put(f"/v1/topics/{topic}-orders", json={})

    problem = http.get(f"/v1/topics/{topic}-order")

    assert problem.status_code == 404
    assert problem.headers["content-type"] == "application/problem+json"
    body = problem.json()
    assert body["type"] == "/errors/InvalidError"
    assert f"{topic}-orders" in body["fields"]["near"]
    assert (body["retryable"], body["stored"]) == (False, "no")
    assert "fix the call" in http.get(body["type"]).text


def test_internal_topics_are_out_of_reach(http: httpx2.Client) -> None:
    for name in ("__strandline.tokens", "__STRANDLINE.tokens"):
        assert http.get(f"/v1/topics/{name}").status_code == 400
        assert http.put(f"/v1/topics/{name}", json={}).status_code == 400
        assert http.get(f"/v1/topics/{name}/partitions/0/records").status_code == 400


def test_bad_settings_are_refused_before_anything_is_made(http: httpx2.Client, topic: str) -> None:
    settings: list[object] = [{"partitions": 0}, {"partitions": "x"}, {"kind": "no"}, {"a": 1}, []]
    for bad in settings:
        assert http.put(f"/v1/topics/{topic}", json=bad).status_code == 400, bad

    assert http.get(f"/v1/topics/{topic}").status_code == 404


def test_an_unknown_path_and_method_are_problems(http: httpx2.Client) -> None:
    missing, wrong = http.get("/v1/nope"), http.delete("/v1/log")

    assert (missing.status_code, missing.json()["title"]) == (404, "NotFound")
    assert (wrong.status_code, wrong.json()["title"]) == (405, "MethodNotAllowed")
    assert wrong.headers["allow"]


def test_what_payloads_have_is_declared_and_removed(http: httpx2.Client, topic: str) -> None:
    path = f"/v1/topics/{topic}"
    made = http.put(path, json={"payload": "n BIGINT"}).json()
    changed = http.patch(path, json={"payload": "n STRING", "retention_age_s": 60}).json()
    kept = http.patch(path, json={"retention_age_s": None}).json()
    wrong = http.patch(path, json={"payload": "n STRIN"})
    removed = http.patch(path, json={"payload": None}).json()

    assert made["payload_schema"] == {"n": "int64"}
    assert (changed["payload_schema"], changed["retention_age_s"]) == ({"n": "string"}, 60)
    assert (kept["payload_schema"], kept["retention_age_s"]) == ({"n": "string"}, None)
    assert wrong.status_code == 400
    assert (wrong.json()["fields"]["position"], wrong.json()["fields"]["near"]) == (2, ["STRING"])
    assert removed["payload_schema"] is None
