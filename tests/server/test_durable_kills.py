"""A server of Durable Streams that is killed while it appends."""

import threading
from pathlib import Path

import httpx2
import pytest

import strandline as sl
from tests.server.processes import ServerProcess
from tests.server.waiting import wait_until

PATH = "/v1/stream/chats/1"
TEXT = {"content-type": "text/plain"}
APPENDS = 60
KILLS = 2


class Producing:
    """A producer that sends each append until it is answered, whatever happens to the server."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.acknowledged = 0
        self.repeats = 0
        self.refused: list[tuple[int, str]] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with httpx2.Client(base_url=self._url, verify=False, timeout=30) as http:
            for seq in range(APPENDS):
                answer = wait_until(lambda seq=seq: self._send(http, seq))  # type: ignore[misc] # Of this round.
                assert answer is not None
                if answer.status_code not in (200, 204):
                    self.refused.append((answer.status_code, answer.text))
                    return
                self.repeats += answer.status_code == 204
                self.acknowledged += 1

    def _send(self, http: httpx2.Client, seq: int) -> httpx2.Response | None:
        headers = {
            **TEXT,
            "producer-id": "writer",
            "producer-epoch": "0",
            "producer-seq": str(seq),
        }
        try:
            answer = http.post(PATH, headers=headers, content=f"{seq},".encode())
        except httpx2.TransportError:
            return None
        return None if answer.status_code == 503 else answer


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_when_the_server_is_killed_in_mid_append(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "log")
    server = ServerProcess(path)
    with server.client() as http:
        assert http.put(PATH, headers=TEXT).status_code == 201
    producing = Producing(server.url)
    for kill in range(1, KILLS + 1):
        wait_until(lambda: producing.acknowledged >= kill * APPENDS // (KILLS + 2))  # noqa: B023
        server.kill()
        server = ServerProcess(path, server.port)
    producing.join()
    with server, server.client() as http:
        found = http.get(PATH).text
        repeat = http.post(
            PATH,
            headers={**TEXT, "producer-id": "writer", "producer-epoch": "0", "producer-seq": "7"},
            content=b"again",
        )

    assert producing.refused == []
    assert found == "".join(f"{seq}," for seq in range(APPENDS))
    assert (repeat.status_code, repeat.headers["producer-seq"]) == (204, str(APPENDS - 1))
    with sl.open(f"file:{path}", mode="read") as log:
        assert len(list(log.read("chats..1", 0, 0))) == APPENDS
