"""`server.append.*`: events over HTTP, beside a bare handler, Redis Streams and JetStream."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from shutil import which
from typing import NamedTuple

from benchmarks.entry import Contender, Entry
from benchmarks.events import samples
from benchmarks.producing import fresh
from benchmarks.served import (
    Peer,
    append_s,
    bare_server,
    empty_server,
    encoded,
    jetstream,
    our_server,
    redis_stream,
)
from benchmarks.sizes import Sizes
from strandline.values import Durability
from tests.stores.jetstream.server import why_none

Serving = Callable[[Path, Durability], AbstractContextManager[Peer]]

FEW = 16
BATCH = 100
LEVELS = (Durability.WRITTEN, Durability.DURABLE)
PEERS: Mapping[str, Serving] = {
    "empty": empty_server,
    "starlette": bare_server,
    "redis": redis_stream,
    "jetstream": jetstream,
}


class Amounts(NamedTuple):
    """The size of a round: requests of each connection, and events of each request."""

    connections: int
    requests: int
    events: int


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `server.append.`, by connections and events of a request."""
    few, many = sizes.served_requests // FEW, sizes.served_requests // sizes.served_many
    batches = sizes.served_batches // FEW
    return tuple(
        entry
        for level in LEVELS
        for entry in (
            _entry(
                "single16", level, Amounts(FEW, few, 1), starlette=0.5, redis=0.4, jetstream=1.0
            ),
            _entry("single256", level, Amounts(sizes.served_many, many, 1), starlette=0.5),
            _entry("batch100", level, Amounts(FEW, batches, BATCH), redis=1.0, jetstream=1.0),
        )
    )


def _entry(name: str, level: Durability, amounts: Amounts, **bars: float) -> Entry:
    serving = {each: server for each, server in PEERS.items() if _is_here(each)}
    return Entry(
        name=f"server.append.{name}.{level}",
        unit="events/s",
        contenders=partial(_contenders, {"ours": our_server, **serving}, level, amounts),
        bars={each: bar for each, bar in bars.items() if each in serving},
    )


def _is_here(peer: str) -> bool:
    if peer == "redis":
        return which("redis-server") is not None
    return peer != "jetstream" or why_none() is None


def _contenders(
    serving: Mapping[str, Serving], level: Durability, amounts: Amounts, scratch: Path
) -> Mapping[str, Contender]:
    return {
        name: partial(_rate, server, level, amounts, scratch) for name, server in serving.items()
    }


def _rate(serving: Serving, level: Durability, amounts: Amounts, scratch: Path) -> float:
    """Return how many events a second so many connections append together."""
    connections, requests, events = amounts
    bodies = [encoded(each) for each in samples(requests * events)]
    mine: Sequence[Sequence[bytes]] = [
        bodies[at : at + events] for at in range(0, len(bodies), events)
    ]
    with fresh(scratch) as path, serving(path.parent, level) as peer:
        append_s(peer, [mine[:1]] * connections)
        return connections * len(bodies) / append_s(peer, [mine] * connections)
