"""A server from start to exit, in a separate process."""

import logging
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import strandline as sl
from strandline.log import Log
from strandline.server.running import Address, RunningServer
from strandline.server.settings import ServerSettings
from strandline.values import InvalidError
from tests.server.events import events_of
from tests.server.processes import ServerProcess
from tests.server.served import Served


@pytest.mark.slow
def test_sigterm_ends_each_stream_with_a_last_event_and_loses_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with sl.open(f"file:{path}") as log:
        log.create_topic("orders")
    seen: list[str] = []
    acknowledged: list[int] = []

    with ServerProcess(path) as server:
        with server.client() as http:
            assert http.get("/livez").status_code == 200
            assert http.get("/readyz").json()["status"] == "ready"

        def follow() -> None:
            url = "/v1/topics/orders/tail"
            with server.client() as http, http.stream("GET", url) as answer:
                seen.extend(each.event for each in events_of(answer))

        def append() -> None:
            with server.client() as http:
                for number in range(20):
                    body = {"kind": "a", "payload": number}
                    answer = http.post("/v1/topics/orders/records", json=body)
                    if answer.status_code != 201:
                        return
                    acknowledged.append(number)

        follower, appender = threading.Thread(target=follow), threading.Thread(target=append)
        follower.start()
        while not seen:
            follower.join(0.005)
        appender.start()
        appender.join(60)
        code, logged = server.terminate()
        follower.join(60)

    assert (code, seen[-1]) == (0, "bye")
    lines = [msgspec.json.decode(line) for line in logged.splitlines()]
    assert any("shutting down" in line["message"] for line in lines)
    with sl.open(f"file:{path}", mode="read") as log:
        assert [each.payload for each in log.read("orders", 0, 0)] == acknowledged
        assert log.marks("orders", 0).durable == len(acknowledged)


def test_a_server_that_ends_is_live_and_not_ready(log: Log, serve: Callable[..., Served]) -> None:
    log.create_topic("orders")
    served = serve(log)

    with served.client() as http:
        before = http.get("/livez"), http.get("/readyz")
        served.server.app.streams.drain()
        after = http.get("/livez"), http.get("/readyz")
        refused = http.get("/v1/topics/orders/tail")
        appended = http.post("/v1/topics/orders/records", json={"kind": "a"})

    assert [each.status_code for each in (*before, *after)] == [200, 200, 200, 503]
    assert "retry-after" in after[1].headers
    assert (refused.status_code, appended.status_code) == (503, 201)


def test_another_address_than_loopback_needs_tls_and_tokens(log: Log) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):  # noqa: S104 - It is refused.
        with pytest.raises(InvalidError, match="needs TLS"):
            RunningServer(log, Address(host=host, port=0))
    with pytest.raises(InvalidError, match="pass both"):
        RunningServer(log, Address(port=0, certificate="a.pem"))
    with pytest.raises(InvalidError, match="create a token first"):
        RunningServer(log, Address(port=0), ServerSettings(needs_token=True))
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        Address(host=host).check()


def test_a_port_that_is_taken_is_refused(log: Log) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        with pytest.raises(InvalidError, match="cannot listen"):
            RunningServer(log, Address(port=taken.getsockname()[1]))


@pytest.mark.slow
def test_a_port_that_needs_a_privilege_is_refused_with_another_advice() -> None:
    program = """if True:
        import strandline as sl
        from strandline.server.running import Address, RunningServer
        try:
            RunningServer(sl.open("memory:"), Address(port=80))
        except sl.InvalidError as error:
            print(error)
    """
    # Root of a namespace of its own has no privilege in this one.
    unprivileged = ["unshare", "--map-root-user"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unprivileged, "true"], check=False).returncode
    ):
        pytest.skip("this user may make no namespace")

    done = subprocess.run(
        [*unprivileged, sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    if not done.stdout:
        pytest.skip("any user may listen on port 80 here")
    assert "choose a port above 1023, which needs no privilege" in done.stdout


def test_a_server_that_is_stopped_before_it_runs_ends_without_an_error(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    """So does one that is stopped in the first milliseconds of `run`, in another thread."""
    server = RunningServer(log, Address(port=0))
    ready: list[str] = []

    server.stop()
    server.run(ready.append)

    assert not [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert not ready
