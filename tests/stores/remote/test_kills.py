"""A server that is killed: nothing acknowledged is lost, nothing is doubled, clients continue."""

import threading
from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log
from strandline.stores.remote import RemoteStore
from strandline.values import UnavailableError, UnknownError
from tests.server.processes import ServerProcess

pytestmark = pytest.mark.slow


def test_a_killed_server_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path, kills, appends = str(tmp_path / "log"), 3, 240
    server = ServerProcess(path)
    appended: list[int] = []
    followed: list[int] = []
    with sl.open(server.url) as log:
        log.create_topic("orders")

    def append() -> None:
        with sl.open(server.url) as log:
            for number in range(0, appends, 3):
                receipts = log.append_many(
                    "orders", [sl.Event("a", number + index) for index in range(3)]
                )
                assert not any(each.is_repeat for each in receipts)
                appended.append(number)

    def follow() -> None:
        with sl.open(server.url, mode="read") as log, log.subscribe("orders") as arriving:
            while len(followed) < appends:
                record = arriving.next(60)
                assert record is not None
                followed.append(record.payload)

    threads = [threading.Thread(target=each) for each in (append, follow)]
    for each in threads:
        each.start()
    for kill in range(kills):
        while len(appended) < (kill + 1) * appends // 3 // (kills + 1):
            assert threads[0].is_alive()
            threads[0].join(0.001)
        server.kill()
        server = ServerProcess(path, server.port)
    for each in threads:
        each.join(120)
    server.terminate()
    server.__exit__()

    assert len(appended) == appends // 3
    with sl.open(f"file:{path}", mode="read") as log:
        stored = [each.payload for each in log.read("orders", 0, 0)]
        assert stored == list(range(appends))
        assert [report.findings for report in log.verify("orders")] == [()]
    assert followed == stored


def test_a_server_that_does_not_come_back_is_unavailable(tmp_path: Path) -> None:
    with ServerProcess(str(tmp_path / "log")) as server:
        log = Log(RemoteStore(server.url, patience_s=0.2))
        log.create_topic("orders")
        log.append("orders", sl.Event("a", 0))
        server.kill()

        with pytest.raises((UnavailableError, UnknownError)) as caught:
            log.append("orders", sl.Event("a", 1))
        with pytest.raises(UnavailableError):
            log.marks("orders", 0)
        log.close()

    if type(caught.value) is UnavailableError:
        assert caught.value.write == sl.Event("a", 1)
