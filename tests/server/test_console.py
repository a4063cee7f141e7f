"""The console over HTTP: its files, its sessions, and who may have one."""

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from strandline.log import Log
from strandline.server.console import static_files
from strandline.server.running import Address, RunningServer
from strandline.server.sessions import SESSION_S
from strandline.server.settings import ServerSettings
from strandline.server.tokens import EVERY_SCOPE, TokenTable
from strandline.testing import FakeClock
from tests.logs import memory_log
from tests.server.served import Served


@pytest.fixture
def guarded(log: Log, serve: Callable[..., Served]) -> Served:
    """A server that needs tokens."""
    TokenTable(log).create(["read"])
    return serve(log, ServerSettings(needs_token=True))


@pytest.fixture
def one(log: Log) -> Iterator[Served]:
    """The server of `strandline console`."""
    log.create_topic("orders")
    served = Served(log, for_one=True)
    yield served
    served.stop()


def origin(served: Served) -> dict[str, str]:
    """Return what a browser sends of the console's own page."""
    return {"origin": served.url, "sec-fetch-site": "same-origin"}


def secret_of(link: str) -> str:
    return link.rpartition("#once=")[2]


def enter(served: Served, http: httpx2.Client, secret: str | None = None) -> httpx2.Response:
    once = secret_of(served.server.console_link()) if secret is None else secret
    return http.post("/console/session", json={"once": once}, headers=origin(served))


def test_every_file_is_served_under_a_policy_that_allows_no_other_host(http: httpx2.Client) -> None:
    files = static_files()
    assert {"index.html", "app.js", "style.css", "screens/tail.js"} <= files.keys()

    for name in ("", *files):
        answer = http.get(f"/console/{name}")
        assert answer.status_code == 200, name
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        known = {"if-none-match": answer.headers["etag"]}
        assert http.get(f"/console/{name}", headers=known).status_code == 304
        known["if-none-match"] = f'"x", W/{known["if-none-match"]}'
        assert http.get(f"/console/{name}", headers=known).status_code == 304


def test_no_file_names_another_host_or_reads_markup() -> None:
    for name, file in static_files().items():
        text = file.body.decode()
        hosts = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text))
        assert hosts <= {"http://www.w3.org"}, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
        assert not re.search(r"<script(?![^>]*src=)|\son\w+=\"|style=\"", text), name


def test_what_is_no_file_is_not_found(http: httpx2.Client) -> None:
    for path in ("/console/nope.js", "/console/..%2fapp.py", "/console/%2e%2e/app.py"):
        assert http.get(path).status_code == 404, path
    assert http.get("/console").headers["location"] == "/console/"
    assert http.get("/").headers["location"] == "/console/"


def test_a_name_that_was_made_to_resolve_to_loopback_gets_nothing(http: httpx2.Client) -> None:
    for path in ("/console/", "/console/app.js", "/v1/log"):
        assert http.get(path, headers={"host": "evil.example"}).status_code == 421


def test_a_link_admits_one_browser_once(one: Served) -> None:
    secret = secret_of(one.server.console_link())

    with one.client() as first, one.client() as second:
        assert first.get("/v1/topics").status_code == 401
        assert enter(one, first, secret).status_code == 204
        assert enter(one, second, secret).status_code == 401
        assert first.get("/v1/topics").json()["topics"][0]["name"] == "orders"
        assert second.get("/v1/topics").status_code == 401


def test_the_cookie_is_for_the_browser_alone(one: Served) -> None:
    with one.client() as http:
        header = enter(one, http).headers["set-cookie"]

    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_S}"} <= set(
        header.split("; ")
    )
    assert "Secure" not in header
    assert header.startswith(f"strandline_{one.url.rpartition(':')[2]}=")


def test_behind_tls_the_cookie_is_sent_over_tls_alone(one: Served) -> None:
    with one.client() as http:
        http.headers["x-forwarded-proto"] = "https"
        assert enter(one, http).headers["set-cookie"].endswith("; Secure")


def test_a_page_of_another_origin_has_no_session(one: Served) -> None:
    """Cross-site request forgery: a browser says which page sends a request."""
    foreign: list[dict[str, str]] = [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": one.url.replace("127.0.0.1", "localhost")},
        {"origin": one.url, "sec-fetch-site": "cross-site"},
        {"origin": one.url, "sec-fetch-site": "same-site"},
        {},
    ]
    with one.client() as http:
        assert enter(one, http).status_code == 204
        for headers in foreign:
            body = {"kind": "forged"}
            answer = http.post("/v1/topics/orders/records", json=body, headers=headers)
            assert answer.status_code == 421, headers
            assert http.delete("/console/session", headers=headers).status_code == 421, headers
            begun = http.post("/console/session", json={"once": "00"}, headers=headers)
            assert begun.status_code == 421, headers
        assert http.get("/v1/log", headers={"sec-fetch-site": "cross-site"}).status_code == 421
        own = http.post("/v1/topics/orders/records", json={"kind": "own"}, headers=origin(one))

        assert own.status_code == 201
        records = http.get("/v1/topics/orders/partitions/0/records").json()["records"]
    assert [each["kind"] for each in records] == ["own"]


def test_a_session_is_of_the_name_by_which_it_began(one: Served) -> None:
    with one.client() as http:
        enter(one, http)
        cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())

    port = one.url.rpartition(":")[2]
    with one.client() as http:
        for host, status in ((f"localhost:{port}", 421), (f"127.0.0.1:{port}", 200)):
            headers = {"host": host, "cookie": cookie}
            assert http.get("/v1/log", headers=headers).status_code == status


def test_a_token_begins_a_session_that_ends_with_it(guarded: Served, log: Log) -> None:
    tokens = TokenTable(log)
    secret, token = tokens.create(["read"], topics=["orders*"])
    log.create_topic("orders")
    log.create_topic("secret")

    with guarded.client() as http:
        bearer = {"authorization": f"Bearer {secret}", **origin(guarded)}
        assert http.post("/console/session", headers=bearer).status_code == 204
        names = [each["name"] for each in http.get("/v1/topics").json()["topics"]]
        refused = http.put("/v1/topics/orders-2", json={}, headers=origin(guarded))
        tokens.revoke(token.id)
        after = http.get("/v1/topics")

    assert names == ["orders"]
    assert (refused.status_code, after.status_code) == (403, 401)


def test_no_session_begins_without_a_valid_token(guarded: Served) -> None:
    with guarded.client() as http:
        for sent in (
            {"authorization": "Bearer slt_nope"},
            {"authorization": "Basic slt_nope"},
            {"authorization": ""},
            {},
        ):
            answer = http.post("/console/session", headers={**origin(guarded), **sent})
            assert answer.status_code == 401, sent
            assert "set-cookie" not in answer.headers
        for body, status in (
            (b"[", 400),
            (b'{"twice": 1}', 400),
            (b'{"once": 7}', 400),
            (b" " * 5000, 413),
            (b'{"once": ""}', 401),
        ):
            answer = http.post("/console/session", content=body, headers=origin(guarded))
            assert answer.status_code == status, body[:20]


def test_a_session_expires_and_can_be_ended() -> None:
    clock = FakeClock()
    log = memory_log(clock=clock)
    served = Served(log, for_one=True)
    served.server.app.history.stop()  # Or half a day of samples is taken.
    try:
        with served.client() as http:
            enter(served, http)
            clock.advance(SESSION_S - 60)
            assert http.get("/v1/log").status_code == 200
            clock.advance(61)
            assert http.get("/v1/log").status_code == 401
            enter(served, http)
            assert http.get("/v1/log").status_code == 200
            cookie = dict(http.cookies)
            ended = http.delete("/console/session", headers=origin(served))
            assert "Max-Age=0" in ended.headers["set-cookie"]
        with served.client(cookies=cookie) as http:
            assert http.get("/v1/log").status_code == 401
    finally:
        served.stop()
        log.close()


def test_no_secret_is_logged(one: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token, _ = one.server.app.tokens.create(EVERY_SCOPE)
    link = one.server.console_link()

    with one.client() as http:
        enter(one, http, secret_of(link))
        cookies = dict(http.cookies)
        http.get("/v1/log")
        http.post("/console/session", json={"once": secret_of(link)}, headers=origin(one))
        http.get("/v1/log", headers={"authorization": f"Bearer {token}"})
        http.get("/v1/log", headers={"authorization": f"Bearer {token}x"})

    assert len(cookies) == 1
    for secret in (secret_of(link), token, *cookies.values()):
        # What the client of this test logs is not the server's.
        said = [each for each in caplog.records if not each.name.startswith("httpcore")]
        assert secret not in "\n".join(each.getMessage() for each in said)
        assert secret not in repr(vars(one.server.app.sessions))


def test_a_server_for_one_needs_no_token_and_takes_one(log: Log) -> None:
    server: Any = RunningServer(log, Address(port=0), for_one=True)

    assert server.app.settings.needs_token
    assert server.console_link().startswith(f"{server.url}/console/#once=")
    server.stop()
    server.run()
