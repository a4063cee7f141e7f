"""Flight in a separate process: TLS, addresses, SIGTERM."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight

import strandline as sl
from strandline.log import Log
from strandline.server.running import Address, RunningServer
from strandline.server.settings import ServerSettings
from strandline.values import Event, InvalidError
from tests.server.flight.flights import FlightServed, client_of, command, events, put, rows, ticket
from tests.server.processes import ServerProcess


@pytest.mark.heavy
def test_sigterm_ends_a_follower_with_a_last_message_and_loses_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with sl.open(f"file:{path}") as log:
        log.create_topic("orders")
    with ServerProcess(path, 0, "--flight-port", "0") as server:
        assert server.flight is not None
        with flight.FlightClient(server.flight) as client:
            assert put(client, command("orders"), events(1, 2))[0]["records"] == 2
            reader = client.do_get(ticket("orders", follow=True, columns=["_offset"]))
            notes: list[Any] = []
            while not any("caught_up" in each for each in notes):
                notes.append(_note(reader.read_chunk()))
            server.signal(15)
            while not any("bye" in each for each in notes):
                notes.append(_note(reader.read_chunk()))
            with pytest.raises(StopIteration):
                reader.read_chunk()
        code, _ = server.wait()

    assert code == 0
    with sl.open(f"file:{path}", mode="read") as log:
        assert [each.payload for each in log.read("orders", 0, 0)] == [1, 2]
        assert log.marks("orders", 0).durable == 2


def _note(chunk: Any) -> dict[str, Any]:
    if chunk.app_metadata is None or not chunk.app_metadata.size:
        return {}
    found: dict[str, Any] = json.loads(chunk.app_metadata.to_pybytes())
    return found


@pytest.mark.slow
def test_flight_is_served_with_the_certificate_of_http(
    log: Log, certificate: tuple[str, str]
) -> None:
    log.append(log.create_topic("orders"), Event("a"))
    served = FlightServed(
        log, ServerSettings(), certificate=certificate[0], private_key=certificate[1]
    )
    try:
        assert served.flight_url.startswith("grpc+tls://127.0.0.1:")
        roots = Path(certificate[0]).read_bytes()
        with client_of(served, tls_root_certs=roots) as client:
            assert len(rows(client, "orders")) == 1
        plain = served.flight_url.replace("grpc+tls", "grpc")
        with (
            flight.FlightClient(plain) as client,
            pytest.raises(flight.FlightUnavailableError),
        ):
            list(client.list_flights(options=flight.FlightCallOptions(timeout=30)))
    finally:
        served.stop()


def test_a_port_that_is_taken_is_an_error_that_reports_it(log: Log) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InvalidError, match="cannot listen there"),
    ):
        RunningServer(log, Address(port=0, flight_port=taken.getsockname()[1]))
