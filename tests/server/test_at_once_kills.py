"""A server that is killed while it appends requests as they arrive."""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import strandline as sl
from tests.server.processes import ServerProcess
from tests.server.raw_http import Connection, post

KILLS = 4
ANSWERS_PER_KILL = 500


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["written", "durable"])
def test_what_was_answered_is_stored_once_and_where_the_answer_says(
    tmp_path: Path, durability: str
) -> None:
    path, port = str(tmp_path / "log"), 0
    with sl.open(f"file:{path}") as log:
        log.create_topic("orders")
    answered: dict[int, int] = {}
    numbers = itertools.count()
    for _ in range(KILLS):
        with ServerProcess(path, port) as server:
            port = server.port
            wanted = len(answered) + ANSWERS_PER_KILL
            clients = [
                threading.Thread(target=_append, args=(server, durability, size, numbers, answered))
                for size in (1, 1, 1, 20)
            ]
            for client in clients:
                client.start()
            while len(answered) < wanted:
                time.sleep(0.001)
            server.kill()
            for client in clients:
                client.join()

    with sl.open(f"file:{path}", mode="read") as log:
        stored = [(record.payload, record.offset) for record in log.read("orders", 0, 0)]
    assert len({number for number, _ in stored}) == len(stored), "one was stored twice"
    assert answered.items() <= dict(stored).items(), "one was lost, or is elsewhere"
    assert len(answered) >= KILLS * ANSWERS_PER_KILL


def _append(
    server: ServerProcess,
    durability: str,
    size: int,
    numbers: Iterator[int],
    answered: dict[int, int],
) -> None:
    """Append events until the server is gone, and keep the offsets that were answered."""
    path = f"/v1/topics/orders/records?durability={durability}"
    with Connection(server) as connection:
        while True:
            mine = list(itertools.islice(numbers, size))
            body = msgspec.json.encode([{"kind": "a", "payload": each} for each in mine])
            try:
                answer = connection.send(post(body, path=path))
            except OSError:
                return
            if not answer.endswith(b"]}"):
                return
            receipts = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])["receipts"]
            offsets = [each["offset"] for each in receipts]
            answered.update(zip(mine, offsets, strict=True))
