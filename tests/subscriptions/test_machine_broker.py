"""A broker across the processes of a machine."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.clock import SystemClock
from strandline.io import SystemIo
from strandline.io.file_watcher import FileWatcher
from strandline.io.inotify import Inotify
from strandline.values import InvalidError, Tenant, Topic

PATIENCE_S = 30.0
PROCESS = str(Path(__file__).with_name("broker_process.py"))
ORDERS = Topic("orders", SystemClock().new_id())
BILLS = Topic("bills", SystemClock().new_id(), Tenant("acme"))


def live(topic: Topic) -> sl.LiveSubscription:
    return sl.LiveSubscription(topic, "billing", Tenant("acme"), os.getpid())


class PollingIo(SystemIo):
    """An io whose system gives no notices."""

    def file_watcher(self) -> FileWatcher:  # type: ignore[misc,override] # A class, there.
        def refuse() -> Inotify:
            raise OSError("no more notices")

        return FileWatcher(refuse)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "broker")


@pytest.fixture(params=[SystemIo, PollingIo])
def brokers(
    request: pytest.FixtureRequest, folder: str
) -> Iterator[tuple[sl.MachineBroker, sl.MachineBroker]]:
    """Two of one directory, which need not be in one process."""
    first = sl.MachineBroker(folder, io=request.param())
    second = sl.MachineBroker(folder, io=request.param())
    yield first, second
    first.close()
    second.close()


@pytest.mark.parametrize("topic", [ORDERS, BILLS])
def test_a_wake_up_comes_to_the_other_side(
    brokers: tuple[sl.MachineBroker, sl.MachineBroker], topic: Topic
) -> None:
    writer, reader = brokers
    woken = threading.Event()
    reader.attach(live(topic), woken.set)

    writer.publish(topic if topic.tenant else topic.name)

    assert woken.wait(PATIENCE_S)


def test_a_wake_up_comes_to_those_of_its_topic_alone(folder: str) -> None:
    broker = sl.MachineBroker(folder)
    woken, others = threading.Event(), threading.Event()
    broker.attach(live(ORDERS), woken.set)
    broker.attach(live(BILLS), others.set)

    broker.publish("orders")

    assert woken.wait(PATIENCE_S)
    assert not others.is_set()
    broker.close()


def test_no_reader_is_woken_once_it_is_detached(folder: str) -> None:
    broker = sl.MachineBroker(folder)
    gone, woken = threading.Event(), threading.Event()
    broker.attach(live(ORDERS), gone.set)()
    broker.attach(live(ORDERS), woken.set)

    broker.publish("orders")

    assert woken.wait(PATIENCE_S)
    assert not gone.is_set()
    broker.close()


def test_what_is_attached_is_listed_on_both_sides_until_it_is_detached(
    brokers: tuple[sl.MachineBroker, sl.MachineBroker],
) -> None:
    first, second = brokers
    detach = first.attach(live(ORDERS), lambda: None)
    second.attach(live(BILLS), lambda: None)

    both = first.live(), second.live()
    detach()
    detach()

    assert all(set(each) == {live(ORDERS), live(BILLS)} for each in both)
    assert first.live() == second.live() == second.live(BILLS) == [live(BILLS)]
    assert second.live(ORDERS) == []


def test_what_was_attached_to_a_broker_that_was_closed_is_not_listed(
    brokers: tuple[sl.MachineBroker, sl.MachineBroker],
) -> None:
    first, second = brokers
    first.attach(live(ORDERS), lambda: None)
    assert second.live() == [live(ORDERS)]

    first.close()

    assert second.live() == []


def test_a_foreign_file_in_the_directory_is_passed_over(folder: str) -> None:
    broker = sl.MachineBroker(folder)
    end = broker.attach(live(ORDERS), lambda: None)
    for name, text in (("a.live", "{}"), ("b.live", ""), ("c", "x")):
        Path(folder, name).write_text(text)

    assert broker.live() == [live(ORDERS)]
    end()
    broker.close()


def test_a_broker_that_was_closed_reports_it_and_a_bad_directory_too(tmp_path: Path) -> None:
    broker = sl.MachineBroker(str(tmp_path))
    broker.close()

    with pytest.raises(InvalidError, match="closed"):
        broker.publish("orders")
    with pytest.raises(InvalidError, match="cannot be made"):
        sl.MachineBroker(str(tmp_path / "missing" / "deep"))


@contextlib.contextmanager
def subscriber(url: str, folder: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, PROCESS, url, folder, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file:", "sqlite:"])
def test_a_subscriber_in_another_process_is_woken_listed_and_gone_when_it_is_killed(
    scheme: str, tmp_path: Path, folder: str
) -> None:
    url = f"{scheme}{tmp_path / 'events'}"
    broker = sl.MachineBroker(folder)
    with sl.open(url, broker=broker) as log:
        topic = log.create_topic("orders")
        with subscriber(url, folder) as process:
            assert line(process) == "ready"
            listed = list(broker.live(topic))
            for number in range(3):
                log.append("orders", sl.Event("order", {"n": number}))
                assert line(process) == str(number)
            process.send_signal(signal.SIGKILL)
            process.wait()

        assert listed == [sl.LiveSubscription(topic, "billing", Tenant("acme"), process.pid)]
        assert broker.live() == []
        assert not [name for name in os.listdir(folder) if name.endswith(".live")]
    broker.close()


@pytest.mark.slow
def test_a_child_of_a_killed_subscriber_does_not_keep_it_listed(
    tmp_path: Path, folder: str
) -> None:
    url = f"sqlite:{tmp_path / 'events'}"
    with sl.open(url) as log:
        log.create_topic("orders")
    broker = sl.MachineBroker(folder)
    with subscriber(url, folder, "fork") as process:
        child = int(line(process))
        try:
            assert line(process) == "ready"
            assert len(broker.live()) == 1
            process.send_signal(signal.SIGKILL)
            process.wait()

            assert broker.live() == []
        finally:
            os.kill(child, signal.SIGKILL)
    broker.close()
