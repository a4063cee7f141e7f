"""A workload of a file log in which everything happens that hardly ever does."""

import os
from pathlib import Path
from uuid import uuid4

from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.files.frame import HEADER_BYTES
from strandline.stores.files.segment import FRAMES_AT
from strandline.testing.faulty_io import FaultyIo
from strandline.values import Durability, Event
from tests.logs import file_log
from tests.processes.report import Report
from tests.processes.stores import SMALL_BYTES, lock_files
from tests.processes.workloads import CONSUMER, PARTITIONS, TOPIC, Writer, must

OTHER = "passing"
SIDE = "side"
#: So much of a segment that its first frame has begun.
TORN_BYTES = FRAMES_AT + HEADER_BYTES


def rare_paths(report: Report, url: str, io: FaultyIo) -> None:
    """Seal, forget, take over, drop, and continue after every kind of kill; first error ends it."""
    path = url.partition(":")[2]
    _prepare(report, path)
    with _opened(path, io) as log:
        _look_around(log)
        assert log.delete_consumer(TOPIC, OTHER)
        assert log.seal(TOPIC)
        report.say("dropping", SIDE)
        log.drop_topic(SIDE)
        report.say("dropped", SIDE)
    _without_its_lock(report, url, io)
    _follow(report, path, io)
    _after_a_crash_before_the_tail(report, path, io)
    _after_a_loss_of_power(report, path, io)
    _from_an_owner(report, path, io)


def _opened(path: str, io: FaultyIo | SystemIo, **options: object) -> Log:
    return file_log(path, io=io, segment_bytes=SMALL_BYTES, **options)


def _prepare(report: Report, path: str) -> None:
    """Make what the rest needs, without a fault."""
    with _opened(path, SystemIo()) as log:
        log.create_topic(TOPIC, partitions=PARTITIONS)
        report.say("created", TOPIC)
        writer = Writer(report, log, "early", 0)
        for count in (1, 4, 4, 2):
            must(writer.append(0, count))
        log.ack(TOPIC, CONSUMER, 0, 1)
        report.say("acked", 0, 1)
        log.ack(TOPIC, OTHER, 0, 2)
        log.create_topic(SIDE)
        report.say("created", SIDE)
        log.append(SIDE, Event("side", {"n": 0}))
    # Left by a crash while a topic is created.
    segments = Path(path, "topics", str(uuid4()), "0", "segments")
    segments.mkdir(parents=True)
    written = next(Path(path).glob("topics/*/0/segments/*"))
    segments.joinpath(written.name).write_bytes(written.read_bytes()[:TORN_BYTES])


def _look_around(log: Log) -> None:
    assert [each.consumer for each in log.consumers(TOPIC)] == [CONSUMER, OTHER]
    position = log.position(TOPIC, 0, 3)
    log.create_topic("another")
    assert log.resolve(position) == 3
    watch = log.watch()
    watch.add(TOPIC, 0, log.marks(TOPIC, 0).high)
    watch.close()
    assert log.segments(TOPIC, 0)
    assert log.offset_at(TOPIC, 0, 1) == 0


def _without_its_lock(report: Report, url: str, io: FaultyIo) -> None:
    for lock in lock_files(url):
        lock.unlink()
    with _opened(url.partition(":")[2], io) as log:
        writer = Writer(report, log, "lockless", 0)
        for _ in range(3):
            must(writer.append(0, 1, Durability.DURABLE))


def _follow(report: Report, path: str, io: FaultyIo) -> None:
    """Read as a subscription does that has come to the end before."""
    with _opened(path, io) as log:
        topic = log.topic(TOPIC)
        end = log.marks(topic, 0).high
        [_] = log.read(topic, 0, end - 1, records_max=9, bytes_max=1 << 16)
        must(Writer(report, log, "followed", 0).append(0))
        [_] = log.read(topic, 0, end, records_max=9, bytes_max=1 << 16)


def _after_a_crash_before_the_tail(report: Report, path: str, io: FaultyIo) -> None:
    tails = {tail: tail.read_bytes() for tail in Path(path).rglob("*.tail")}
    # A crash there acknowledges nothing.
    report.say("offer", "tailless", 0, 1, str(Durability.WRITTEN))
    with _opened(path, SystemIo()) as log:
        log.append(TOPIC, Event("tailless", {"n": 0}), partition=0)
    for tail, content in tails.items():
        tail.write_bytes(content)
    with _opened(path, io) as log:
        must(Writer(report, log, "next", 0).append(0))


def _after_a_loss_of_power(report: Report, path: str, io: FaultyIo) -> None:
    with _opened(path, SystemIo()) as log:
        log.sync(TOPIC, 0)
    for tail in Path(path).rglob("*.tail"):
        tail.write_bytes(bytes(len(tail.read_bytes())))
    io.reboot()
    with _opened(path, io) as log:
        must(Writer(report, log, "booted", 0).append(0))


def _from_an_owner(report: Report, path: str, io: FaultyIo) -> None:
    with _opened(path, SystemIo(), exclusive=True) as owner:
        must(Writer(report, owner, "owner", 0).append(0))
        with _opened(path, io, lock_timeout_s=0.001, take_over=True) as log:
            must(Writer(report, log, f"taker.{os.getpid()}", 0).append(0, 1, Durability.DURABLE))
