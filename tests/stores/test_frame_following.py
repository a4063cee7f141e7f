"""A reader that waits for what a server announces, and reads it without asking."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack
from unittest import mock

import msgspec
import pytest

import strandline as sl
from strandline.clock import SystemClock
from strandline.log.parts import follower_of, parts_of
from strandline.log.stored_records import StoredRecord
from strandline.stores.engine_topic import EngineTopic
from strandline.stores.frame_following import FrameFollowers
from strandline.values import Offset, Topic, TopicSettings, ValueKind
from tests.stores.engines import FRAMED

PATIENCE_S = 60.0
EVENT = sl.Event("order", {"n": 1})


class Frame(msgspec.Struct):
    """Some records without a key."""

    start: int
    end: int

    def entries(self, kind: ValueKind, /) -> list[StoredRecord]:
        assert kind is ValueKind.BYTES
        return [
            StoredRecord(Offset(offset), 7, None, None, b"%d" % offset, 1, None)
            for offset in range(self.start, self.end)
        ]


class Announcements:
    """What a process has heard of one partition."""

    def __init__(self) -> None:
        self.frames: list[Frame] | None = []
        self.followers = FrameFollowers()
        settings = TopicSettings(value_kind=ValueKind.BYTES)
        topic = EngineTopic(Topic("t", SystemClock().new_id(), None), settings, 0)
        follower = self.followers.follower(topic, 3, 0, self.since, SystemClock())
        assert follower is not None
        self.follower = follower

    def since(self, offset: int) -> list[Frame] | None:
        return self.frames and [each for each in self.frames if each.end > offset]

    def wait(self, start: int, records_max: int = 10, timeout_s: float = PATIENCE_S) -> list[int]:
        found = self.follower.wait(start, records_max, timeout_s)
        return [-1] if found is None else [record.offset for record in found]


def test_what_was_announced_is_returned_from_its_offset_on_and_no_more_than_was_asked_for() -> None:
    announced = Announcements()
    announced.frames = [Frame(0, 3), Frame(3, 6)]

    assert announced.wait(1) == [1, 2, 3, 4, 5]
    assert announced.wait(4) == [4, 5]
    assert announced.wait(1, records_max=2) == [1, 2]


def test_a_record_is_what_was_stored() -> None:
    announced = Announcements()
    announced.frames = [Frame(0, 1)]

    found = announced.follower.wait(0, 1, PATIENCE_S)
    assert found is not None
    (record,) = found
    assert (record.topic, record.partition, record.offset) == ("t", 3, 0)
    assert (record.timestamp_us, record.value) == (7, b"0")


def test_a_reader_that_waits_has_what_comes_at_once() -> None:
    announced = Announcements()
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(announced.wait(0)))
    thread.start()
    announced.frames = [Frame(0, 2)]
    announced.followers.notice()
    thread.join(PATIENCE_S)

    assert found == [0, 1]


def test_its_reader_looks_for_itself_when_woken_once_or_when_frames_are_missing() -> None:
    announced = Announcements()
    announced.followers.wake()
    assert announced.wait(0) == [-1]
    announced.frames = [Frame(0, 1)]
    assert announced.wait(0) == [0]
    announced.frames = None
    assert announced.wait(0) == [-1]


def test_a_wait_ends_with_its_time() -> None:
    assert Announcements().wait(0, timeout_s=0.01) == [-1]


def test_a_follower_that_no_one_has_is_woken_no_more() -> None:
    announced = Announcements()
    followers, follower = announced.followers, announced.follower
    followers.wake()
    assert follower.wait(0, 1, PATIENCE_S) is None
    del announced, follower
    followers.wake()


@pytest.mark.slow
@pytest.mark.parametrize("server", FRAMED, indirect=True)
def test_a_server_announces_to_a_reader_what_another_log_appends(
    new_url: Callable[[], str],
) -> None:
    url = new_url()
    with ExitStack() as opened:
        log = opened.enter_context(sl.open(url))
        topic = log.create_topic("t")
        reader = opened.enter_context(sl.open(url, mode="read"))
        subscription = opened.enter_context(sl.subscribe(reader, "t"))
        log.append("t", EVENT)
        assert next(subscription).offset == 0
        follower = follower_of(reader, topic, 0, 1)
        assert follower is not None

        log.append_many("t", [EVENT] * 3)
        found = follower.wait(1, 10, PATIENCE_S)
        assert [record.offset for record in found] == [1, 2, 3]
        assert [record.payload for record in found] == [{"n": 1}] * 3
        assert [next(subscription).offset for _ in range(3)] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("server", FRAMED, indirect=True)
def test_a_reader_on_a_loop_waits_for_hints_and_does_not_ask_all_the_time(
    new_url: Callable[[], str],
) -> None:
    async def first(reader: sl.Log) -> int:
        async with sl.subscribe(reader, "t") as subscription:
            waiting = asyncio.ensure_future(anext(subscription))
            _, pending = await asyncio.wait([waiting], timeout=0.5)
            assert pending
            await asyncio.to_thread(log.append, "t", EVENT)
            return (await waiting).offset

    url = new_url()
    with sl.open(url) as log, sl.open(url, mode="read") as reader:
        log.create_topic("t")
        store = parts_of(reader).store
        with mock.patch.object(store, "marks", wraps=store.marks) as marks:
            assert asyncio.run(first(reader)) == 0
        assert marks.call_count < 20
