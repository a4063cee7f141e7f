"""`server.flight.*`: events of a topic over Arrow Flight, beside a bare server of Arrow's."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import samples
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from strandline.server.running import Address, RunningServer
from strandline.values import Durability

BATCH = 1_000


def _replay(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Fill a log, and a file with the same rows and columns."""
    with closing(ours.exclusive(scratch / "log", Durability.WRITTEN)) as store:
        made = samples(events)
        for at in range(0, events, BATCH):
            store.append_encoded(store.encoded(made[at : at + BATCH]))
    with sl.open(ours.url_of(scratch / "log"), mode="read") as log:
        (topic,) = log.topics()
        rows = log.scan(topic)
        with (
            pa.OSFile(str(scratch / "file"), "wb") as file,
            pa.ipc.new_stream(file, rows.schema) as stream,
        ):
            for batch in rows:
                stream.write_batch(batch)
    return {
        "ours": partial(_from_a_topic, scratch / "log", topic.name, events),
        "pyarrow.flight": partial(_from_a_file, scratch / "file", events),
    }


def _from_a_topic(path: Path, topic: str, events: int) -> float:
    with sl.open(ours.url_of(path)) as log, _serving(log) as url:
        return _rate(url, b'{"topic": "%b"}' % topic.encode(), events)


def _from_a_file(path: Path, events: int) -> float:
    with _BareServer(str(path)) as server:
        return _rate(f"grpc://127.0.0.1:{server.port}", b"", events)


class _BareServer(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types.
    def __init__(self, path: str) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._path = path

    def do_get(self, context: Any, ticket: Any) -> Any:
        del context, ticket
        return flight.RecordBatchStream(pa.ipc.open_stream(pa.memory_map(self._path)))


@contextmanager
def _serving(log: sl.Log) -> Iterator[str]:
    server = RunningServer(log, Address(port=0, flight_port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.flight_url is not None
    try:
        yield server.flight_url
    finally:
        server.stop()
        thread.join()


def _rate(url: str, ticket: bytes, events: int) -> float:
    with flight.FlightClient(url) as client:
        client.wait_for_available()
        started = now()
        found = sum(int(each.data.num_rows) for each in client.do_get(flight.Ticket(ticket)))
        elapsed_s = now() - started
    assert found == events, f"{found} of {events} events were read"
    return events / elapsed_s


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `server.flight.`."""
    return (
        Entry(
            name="server.flight.replay",
            unit="events/s",
            contenders=partial(_replay, events=sizes.tier_events),
            bars={"pyarrow.flight": 0.5},
        ),
    )
