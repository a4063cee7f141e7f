"""The configurations of the page on proxies, in a real nginx in front of a real server."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from pyarrow import flight

import strandline as sl
from strandline.log import Log
from strandline.server import ServerSettings, TokenTable
from strandline.testing.conformance_checks import PATIENCE_S
from strandline.values import Event
from tests.logs import memory_log
from tests.server.flight.flights import FlightServed, ticket

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "behind-a-proxy.md"
WHOLE, PREFIX, GRPC = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(), re.DOTALL)

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def nginx(folder: Path, location: str, served: FlightServed, listen: str = "") -> Iterator[int]:
    """Run nginx with a location of the page; yield its port."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("nginx is not installed")
    port = free_port()
    ports = {"7007": served.url, "7008": served.flight_url}
    for written, url in ports.items():
        location = location.replace(f":{written}", f":{url.rpartition(':')[2]}")
    folder.mkdir()
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off;\n{temporary}"
        f"server {{ listen 127.0.0.1:{port} {listen};\n{location}}} }}\n"
    )
    running = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        _wait_for(port, running, folder)
        yield port
    finally:
        running.terminate()
        running.wait()


def _wait_for(port: int, running: "subprocess.Popen[bytes]", folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            log = folder / "error.log"
            assert running.poll() is None, log.read_text() if log.exists() else "nginx has ended"
            assert time.monotonic() < deadline, "nginx does not listen"
            time.sleep(0.02)
        else:
            return


@pytest.fixture
def log() -> Iterator[Log]:
    with memory_log() as log:
        yield log


@pytest.fixture
def token(log: Log) -> str:
    return TokenTable(log).create(["read", "append", "admin"])[0]


@pytest.fixture
def served(log: Log, token: str) -> Iterator[FlightServed]:
    del token  # A server that needs one does not start without.
    served = FlightServed(log, ServerSettings(needs_token=True))
    yield served
    served.stop()


@pytest.mark.parametrize(("location", "path"), [(WHOLE, ""), (PREFIX, "/events")])
def test_a_remote_log_appends_and_follows_through_the_proxy(
    tmp_path: Path, served: FlightServed, token: str, location: str, path: str
) -> None:
    with nginx(tmp_path / "nginx", location, served) as port:
        url = f"http://127.0.0.1:{port}{path}"
        with sl.open(url, token=token) as remote:
            remote.create_topic("orders")
            with remote.subscribe("orders") as following:
                for number in range(3):
                    remote.append("orders", Event("placed", {"n": number}))
                    record = following.next(timeout_s=PATIENCE_S)
                    assert record is not None
                    assert record.payload == {"n": number}
        refused = httpx2.get(f"{url}/v1/topics")
        assert refused.status_code == 401


def test_a_tail_is_not_held_back(
    tmp_path: Path, served: FlightServed, log: Log, token: str
) -> None:
    log.create_topic("orders")
    with nginx(tmp_path / "nginx", WHOLE, served) as port:
        headers = {"authorization": f"Bearer {token}"}
        tail = f"http://127.0.0.1:{port}/v1/topics/orders/tail"
        with httpx2.stream("GET", tail, headers=headers, timeout=PATIENCE_S) as answer:
            lines = answer.iter_lines()
            for number in range(3):
                log.append("orders", Event("placed", {"n": number}))
                shown = next(
                    line for line in lines if line.startswith("data:") and "placed" in line
                )
                assert f'"n":{number}' in shown


def test_a_body_as_large_as_the_server_takes_passes(
    tmp_path: Path, served: FlightServed, token: str
) -> None:
    with (
        nginx(tmp_path / "nginx", WHOLE, served) as port,
        sl.open(f"http://127.0.0.1:{port}", token=token) as remote,
    ):
        remote.create_topic("large", value_kind="bytes")

        remote.append("large", b"x" * 15 * 1024 * 1024)

        (record,) = remote.read("large", 0, 0)
        assert record.value == b"x" * 15 * 1024 * 1024


def test_flight_passes(tmp_path: Path, served: FlightServed, log: Log, token: str) -> None:
    log.create_topic("orders")
    log.append("orders", Event("placed", {"n": 1}))
    with nginx(tmp_path / "nginx", GRPC, served, "http2") as port:
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        with flight.FlightClient(f"grpc://127.0.0.1:{port}") as client:
            found = client.do_get(ticket("orders"), options).read_all()

    assert found.num_rows == 1
