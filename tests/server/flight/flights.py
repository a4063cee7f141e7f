"""A Flight server on a thread of the test's process, and requests to it."""

import json
from typing import Any

import pyarrow as pa
from pyarrow import flight

from strandline.log import Log
from strandline.server.running import Address
from strandline.server.settings import ServerSettings
from tests.server.served import Served

EVENTS = pa.schema([("kind", pa.string()), ("payload", pa.string()), ("key", pa.string())])
"""The columns of events that are put."""


class FlightServed(Served):
    """Serves a log over HTTP and Flight until it is stopped."""

    def __init__(self, log: Log, settings: ServerSettings | None = None, **address: Any) -> None:
        super().__init__(log, settings, Address(port=0, flight_port=0, **address))
        assert self.server.flight_url is not None
        self.flight_url: str = self.server.flight_url

    def token(self, *scopes: str, **more: Any) -> str:
        """Return a new token."""
        return self.server.app.tokens.create(scopes or ("read", "append"), **more)[0]


def client_of(served: FlightServed, token: str | None = None, **more: Any) -> flight.FlightClient:
    """Return a client; with a token, each of its calls sends it."""
    middleware = [] if token is None else [_Bearer(token)]
    return flight.FlightClient(served.flight_url, middleware=middleware, **more)


class _Bearer(flight.ClientMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types.
    def __init__(self, token: str) -> None:
        self._token = token

    def start_call(self, info: Any) -> Any:
        del info
        return _Sending(self._token)


class _Sending(flight.ClientMiddleware):  # type: ignore[misc] # As above.
    def __init__(self, token: str) -> None:
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"}


def ticket(topic: str, **more: Any) -> flight.Ticket:
    """Return a ticket for rows of a topic."""
    return flight.Ticket(json.dumps({"topic": topic, **more}).encode())


def rows(client: flight.FlightClient, topic: str, **more: Any) -> list[dict[str, Any]]:
    """Return the rows of a topic."""
    found: list[dict[str, Any]] = client.do_get(ticket(topic, **more)).read_all().to_pylist()
    return found


def command(topic: str, **more: Any) -> flight.FlightDescriptor:
    """Return the command of a put."""
    return flight.FlightDescriptor.for_command(json.dumps({"topic": topic, **more}).encode())


def put(
    client: flight.FlightClient, descriptor: flight.FlightDescriptor, *batches: pa.RecordBatch
) -> list[dict[str, Any]]:
    """Put batches; return the answers."""
    writer, answers = client.do_put(descriptor, batches[0].schema)
    with writer:
        for each in batches:
            writer.write_batch(each)
        writer.done_writing()
        found = []
        while (answer := answers.read()) is not None:
            found.append(json.loads(answer.to_pybytes()))
    return found


def events(*payloads: Any, key: str | None = None) -> pa.RecordBatch:
    """Return events with these payloads."""
    count = len(payloads)
    return pa.record_batch(
        [["placed"] * count, [json.dumps(each) for each in payloads], [key] * count],
        schema=EVENTS,
    )


def problem(error: flight.FlightError) -> dict[str, Any]:
    """Return the problem document of an error."""
    found: dict[str, Any] = json.loads(error.extra_info)
    return found
