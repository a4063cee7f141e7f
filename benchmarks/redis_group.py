"""A consumer group of Redis Streams on this machine, without a client library."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.entry import now
from benchmarks.producing import fresh
from benchmarks.redis_server import redis_server
from benchmarks.stores.redis import RedisConnection


def redis_rate(records: int, together: int, scratch: Path) -> float:
    """Return how many records a second a group reads and acks, durable for each so many."""
    with fresh(scratch) as path, _server(path.parent) as redis:
        for number in range(records):
            redis.send("XADD", "orders", "*", "number", str(number))
        for _ in range(records):
            redis.receive()
        redis.call("XGROUP", "CREATE", "orders", "billing", "0")
        started, done = now(), 0
        while done < records:
            read = ("XREADGROUP", "GROUP", "billing", "one", "COUNT", str(together))
            ((_, found),) = redis.call(*read, "STREAMS", "orders", ">")
            redis.call("XACK", "orders", "billing", *(each[0].decode() for each in found))
            done += len(found)
        return records / (now() - started)


@contextmanager
def _server(folder: Path) -> Iterator[RedisConnection]:
    """Yield a connection to a new server that syncs each write."""
    path = folder / "socket"
    with redis_server(folder, "--port", "0", "--unixsocket", str(path)):
        redis = RedisConnection(path)
        try:
            yield redis
        finally:
            redis.close()
