"""Connections that are encrypted: HTTP, streams, remote logs, and Flight beside them."""

import select
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from pyarrow import flight

import strandline as sl
from strandline.log import Log
from strandline.opening import examine
from strandline.server.running import Address, RunningServer
from strandline.server.settings import ServerSettings
from strandline.server.tokens import EVERY_SCOPE, TokenTable
from strandline.values import Event, InvalidError
from tests.logs import memory_log
from tests.server.certificates import make_certificate
from tests.server.events import events_of
from tests.server.flight.flights import FlightServed, client_of, rows
from tests.server.served import Served

pytestmark = pytest.mark.slow


@pytest.fixture
def token(log: Log) -> str:
    return TokenTable(log).create(EVERY_SCOPE)[0]


@pytest.fixture
def far(log: Log, token: str, certificate: tuple[str, str]) -> Iterator[FlightServed]:
    """A server that listens at every address of the machine."""
    del token
    served = FlightServed(
        log,
        host="0.0.0.0",  # noqa: S104 - With TLS and tokens.
        certificate=certificate[0],
        private_key=certificate[1],
    )
    served.url = served.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - As above.
    served.flight_url = served.flight_url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - As above.
    yield served
    served.stop()


def trusting(path: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=path)


def test_requests_and_streams_are_encrypted_and_need_a_token(
    far: FlightServed, log: Log, token: str, certificate: tuple[str, str]
) -> None:
    log.append(log.create_topic("orders"), Event("a", 1))
    verify = trusting(certificate[0])

    assert far.url.startswith("https://")
    with far.client(verify=verify) as http:
        assert http.get("/livez").status_code == 200
        assert http.get("/v1/log").status_code == 401
    with far.client(token, verify=verify) as http:
        assert http.post("/v1/topics/orders/records", json={"kind": "b"}).status_code == 201
        with http.stream("GET", "/v1/topics/orders/tail", params={"start": 0}) as answer:
            events = events_of(answer)
            assert [next(events).data["kind"] for _ in range(2)] == ["a", "b"]
    with client_of(far, token, tls_root_certs=Path(certificate[0]).read_bytes()) as client:
        assert [each["kind"] for each in rows(client, "orders")] == ["a", "b"]
    with (
        client_of(far, tls_root_certs=Path(certificate[0]).read_bytes()) as client,
        pytest.raises(flight.FlightUnauthenticatedError),
    ):
        rows(client, "orders")


def test_what_is_not_encrypted_or_not_trusted_gets_nothing(far: FlightServed, token: str) -> None:
    with (
        httpx2.Client(base_url=far.url.replace("https:", "http:"), verify=False) as http,
        pytest.raises(httpx2.HTTPError),
    ):
        http.get("/livez", headers={"authorization": f"Bearer {token}"})
    with (
        far.client(token, verify=ssl.create_default_context()) as http,
        pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        http.get("/livez")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with far.client(verify=old) as http, pytest.raises(httpx2.ConnectError):
        http.get("/livez")


def test_a_remote_log_is_opened_with_the_authority_that_it_is_to_trust(
    far: FlightServed,
    log: Log,
    token: str,
    certificate: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log.create_topic("orders")

    with sl.open(far.url, token=token, tls_ca=certificate[0]) as remote:
        with remote.subscribe("orders", start=sl.EARLIEST) as subscription:
            remote.append("orders", Event("a", 1))
            record = subscription.next(timeout_s=60)
        assert record is not None
        assert record.payload == 1
    monkeypatch.setenv("STRANDLINE_TLS_CA", certificate[0])
    monkeypatch.setenv("STRANDLINE_TOKEN", token)
    with sl.open(far.url) as remote:
        assert [each.payload for each in remote.read("orders", 0, 0)] == [1]
    assert [each.verdict for each in examine(far.url)][:2] == ["ok", "ok"]


def test_a_server_that_cannot_be_trusted_is_an_error_at_once(
    far: FlightServed, token: str, tmp_path: Path
) -> None:
    other, _ = make_certificate(tmp_path)

    for ca in (None, other):
        with pytest.raises(
            InvalidError, match="pass the certificate of its authority as tls_ca="
        ) as caught:
            sl.open(far.url, token=token, tls_ca=ca)
        assert token not in str(caught.value)
    for path in (str(tmp_path / "none.pem"), str(tmp_path)):
        with pytest.raises(InvalidError, match="check tls_ca"):
            sl.open(far.url, token=token, tls_ca=path)
    with pytest.raises(InvalidError, match="tls_ca is for a server at https:"):
        sl.open(far.url.replace("https:", "http:"), tls_ca=other)


def test_a_certificate_of_another_host_is_not_trusted(log: Log, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "DNS:log.example.org")
    served = Served(log, address=Address(port=0, certificate=certificate, private_key=key))
    try:
        with pytest.raises(InvalidError, match="mismatch"):
            sl.open(served.url, tls_ca=certificate)
    finally:
        served.stop()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda cert, key: (cert.with_name("none.pem"), key), "No such file"),
        (lambda cert, key: (key, cert), "PEM"),
        (lambda cert, key: (cert, _encrypted(key)), "passphrase"),
    ],
    ids=["no file", "swapped", "a key with a passphrase"],
)
def test_files_that_give_no_tls_are_refused_before_the_server_starts(
    certificate: tuple[str, str], spoil: Callable[[Path, Path], tuple[Path, Path]], words: str
) -> None:
    cert, key = spoil(Path(certificate[0]), Path(certificate[1]))

    with memory_log() as log, pytest.raises(InvalidError, match=words):
        RunningServer(log, Address(port=0, certificate=str(cert), private_key=str(key)))


def _encrypted(key: Path) -> Path:
    locked = key.with_name("locked.pem")
    program = shutil.which("openssl") or ""
    options = ["-in", str(key), "-aes256", "-passout", "pass:x", "-out", str(locked)]
    subprocess.run([program, "pkey", *options], check=True, capture_output=True)
    return locked


@pytest.mark.parametrize("path", ["partitions/0/records", "tail?start=0"])
def test_a_client_that_reads_nothing_is_disconnected(
    log: Log, certificate: tuple[str, str], path: str
) -> None:
    log.append_many(log.create_topic("orders"), [Event("a", "x" * 4_000_000) for _ in range(4)])
    address = Address(port=0, certificate=certificate[0], private_key=certificate[1])
    served = Served(log, ServerSettings(slow_reader_s=0.2), address)
    asked = f"GET /v1/topics/orders/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    port = int(served.url.rpartition(":")[2])

    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        trusting(certificate[0]).wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(asked.encode())
        waiting = select.poll()
        waiting.register(connection.fileno(), 0)
        is_cut = bool(waiting.poll(20_000))
    served.stop()

    assert is_cut
