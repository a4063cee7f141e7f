"""`server.tail.*` and `server.readers.*`: latency over HTTP, and the memory of many readers."""

import contextlib
import selectors
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from shutil import which

from benchmarks.crew import crew
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import Sample, samples
from benchmarks.latency import Rounds, latencies_us, publish
from benchmarks.producing import fresh
from benchmarks.served import Peer, encoded, our_process, our_server, redis_stream
from benchmarks.sizes import Sizes
from strandline.values import Durability

Follower = Callable[[Connection, int, int], None]
"""Says when it is ready, receives so many events from a port, and sends when each came."""

_TAIL = b"GET /v1/topics/orders/tail HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_RECORD = b"event: record\n"
_MEMORY = "512 MiB"
_MEMORY_RECORDS = 20


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `server.tail.` and `server.readers.`."""
    ways: dict[str, tuple[Callable[..., contextlib.AbstractContextManager[Peer]], Follower]] = {
        "ours": (our_server, _follow_events)
    }
    if which("redis-server"):
        ways["redis"] = redis_stream, _follow_stream
    rounds = {
        name: Rounds(partial(_deliver, serving, follow, sizes.tail_events))
        for name, (serving, follow) in ways.items()
    }
    latencies = (
        Entry(
            name=f"server.tail.p{percentile}",
            unit="µs",
            contenders=partial(_percentiles, rounds, percentile),
        )
        for percentile in (50, 99)
    )
    memory = Entry(
        name="server.readers.memory",
        unit="MiB",
        contenders=partial(_memory, sizes.served_readers),
        bars={_MEMORY: 1.0},
    )
    return (*latencies, memory)


def _percentiles(
    rounds: Mapping[str, Rounds], percentile: int, scratch: Path
) -> Mapping[str, Contender]:
    return {name: partial(each.percentile, percentile, scratch) for name, each in rounds.items()}


def _deliver(
    serving: Callable[..., contextlib.AbstractContextManager[Peer]],
    follow: Follower,
    events: int,
    scratch: Path,
) -> list[float]:
    """Append over one connection; return how long each event takes to a follower on another."""
    with (
        fresh(scratch) as path,
        serving(path.parent, Durability.WRITTEN) as peer,
        contextlib.closing(socket.create_connection(("127.0.0.1", peer.port))) as connection,
        crew(follow, [(peer.port, events)]) as (follower,),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        talk = peer.talk(0)

        def append(sample: Sample) -> None:
            connection.sendall(peer.request(0, [encoded(sample)]))
            while not talk.answers(connection.recv(65536)):
                pass

        follower.recv()
        begun = publish(append, samples(events))
        return latencies_us(begun, [follower.recv()])


def _follow_events(parent: Connection, port: int, events: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(_TAIL)
        received = b""
        while b"event: caught_up\n" not in received:
            received += connection.recv(65536)
        parent.send("ready")
        parent.send(_arrivals(connection, events))


def _follow_stream(parent: Connection, port: int, events: int) -> None:
    came: list[float] = []
    last = b"0"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        parent.send("ready")
        while len(came) < events:
            words = (b"XREAD", b"BLOCK", b"0", b"STREAMS", b"orders", last)
            lines = [b"$%d\r\n%b\r\n" % (len(each), each) for each in words]
            connection.sendall(b"*%d\r\n%b" % (len(words), b"".join(lines)))
            found = connection.recv(1 << 20)
            while not found.endswith(b"}\r\n"):
                found += connection.recv(1 << 20)
            ids = [each for each in found.split(b"\r\n") if _is_id(each)]
            came += [now()] * len(ids)
            last = ids[-1]
    parent.send(came)


def _is_id(line: bytes) -> bool:
    first, dash, second = line.partition(b"-")
    return bool(dash) and first.isdigit() and second.isdigit()


def _arrivals(connection: socket.socket, events: int) -> list[float]:
    came: list[float] = []
    kept = b""
    while len(came) < events:
        received = connection.recv(65536)
        assert received, "the stream ended"
        # A mark may be split between two pieces: the kept end is too short to contain one.
        came += [now()] * (kept + received).count(_RECORD)
        kept = received[-len(_RECORD) + 1 :]
    return came


# --- many readers ---


def _memory(readers: int, scratch: Path) -> Mapping[str, Contender]:
    return {"ours": partial(_peak_mib, readers, scratch), _MEMORY: lambda: 512.0}


def _peak_mib(readers: int, scratch: Path) -> float:
    """Return the most memory that a server has had, once so many have read what was appended."""
    with (
        fresh(scratch) as path,
        our_process(path.parent) as server,
        _followers(server.port, readers) as streams,
    ):
        with server.client() as http:
            for sample in samples(_MEMORY_RECORDS):
                url = "/v1/topics/orders/records"
                assert http.post(url, content=encoded(sample)).status_code == 201
        _receive(streams, _RECORD, _MEMORY_RECORDS)
        return _peak_bytes(server.pid) / (1 << 20)


@contextlib.contextmanager
def _followers(port: int, readers: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as opened:
        streams = []
        for _ in range(readers):
            stream = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            stream.sendall(_TAIL)
            streams.append(stream)
        _receive(streams, b"event: caught_up\n", 1)
        yield streams


def _receive(streams: list[socket.socket], mark: bytes, times: int) -> None:
    """Return once each stream has received the mark so often."""
    received = dict.fromkeys(streams, b"")
    with selectors.DefaultSelector() as selector:
        for each in streams:
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                stream = key.fileobj
                assert isinstance(stream, socket.socket)
                piece = stream.recv(65536)
                assert piece, "a stream has ended"
                received[stream] += piece
                if received[stream].count(mark) >= times:
                    selector.unregister(stream)


def _peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("this system does not report the peak memory of a process")
