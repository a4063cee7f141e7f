"""What a process knows of topics, interrupted at each line: the next call finds what there is."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest

import strandline as sl
from strandline.stores.files import topics
from strandline.stores.files.topics import FileTopics

ROOM = topics.__file__


class _InterruptedAt:
    """Raises KeyboardInterrupt before the n-th line of the module."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.is_raised = False

    def run(self, call: Callable[[], object]) -> None:
        previous = sys.gettrace()
        sys.settrace(self._trace)
        try:
            call()
        except KeyboardInterrupt:
            assert self.is_raised
        finally:
            sys.settrace(previous)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != ROOM:
            return None
        if event == "line" and not self.is_raised:
            if self._left == 0:
                self.is_raised = True
                raise KeyboardInterrupt
            self._left -= 1
        return self._trace


def find_first(log: sl.Log, _: str) -> None:
    log.append("orders", sl.Event("k", 1))


def find_another(log: sl.Log, url: str) -> None:
    with sl.open(url) as other:
        other.create_topic("late")
        other.drop_topic("gone")
    log.topic("late")


def create(log: sl.Log, _: str) -> None:
    log.create_topic("late")


def drop(log: sl.Log, _: str) -> None:
    log.drop_topic("gone")


Calling = Callable[[sl.Log, str], None]


def check_each_line(folder: Path, call: Calling) -> int:
    for number in range(10_000):
        url = f"file:{folder / str(number)}"
        with sl.open(url) as log:
            for name in ("orders", "gone"):
                log.create_topic(name)
        with sl.open(url) as log:
            if call is not find_first:
                log.topics()
            interrupted = _InterruptedAt(number)
            interrupted.run(lambda: call(log, url))  # noqa: B023 - Called at once.
            with sl.open(url) as other:
                expected = {each.name for each in other.topics()}
            assert {each.name for each in log.topics()} == expected, number
            for name in expected:
                log.append(name, sl.Event("k", 1))
                log.drop_topic(name)
            for name in ("orders", "late", "gone"):
                log.create_topic(name.upper())
        if not interrupted.is_raised:
            return number
    raise AssertionError("it does not end")


@pytest.mark.slow
@pytest.mark.parametrize(
    "call", [find_first, pytest.param(find_another, marks=pytest.mark.heavy), create, drop]
)
def test_topics_are_found_after_an_interrupt_of_any_line(tmp_path: Path, call: Calling) -> None:
    assert check_each_line(tmp_path, call) > 20


@pytest.mark.slow
def test_a_topic_that_is_known_by_its_id_alone_is_caught(tmp_path: Path) -> None:
    """Planted: what an interrupt has left half known stays so."""
    with (
        mock.patch.object(FileTopics, "_name_all", return_value=None),
        pytest.raises(sl.InvalidError, match="no such topic"),
    ):
        check_each_line(tmp_path, find_first)
