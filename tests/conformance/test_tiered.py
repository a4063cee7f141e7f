"""A log whose records are moved to the tier after every append keeps every rule of the suite."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.clock import Clock, SystemClock
from strandline.log import Log
from strandline.stores.files import FileStore
from strandline.stores.memory import MemoryStore
from strandline.stores.sqlite import SqliteStore
from strandline.testing import FakeClock, conformance, conformance_evictions
from strandline.tiering import Tier, tier
from strandline.values import (
    RECORD_BYTES_MAX,
    Event,
    InvalidError,
    StrandlineError,
    Topic,
)
from tests.conformance.cases import cases

_numbers = itertools.count()

# Without those of a log that is its own hot half alone, and the one that counts topics: the
# catalogue is a topic, too.
RULES = [
    rule
    for rule in conformance.RULES
    if rule.__module__ != conformance_evictions.__name__
    and conformance.name_of(rule) != "a_log_describes_itself"
]
TIMED_RULES = [
    rule
    for rule in conformance.TIMED_RULES
    if conformance.name_of(rule) != "dropping_a_topic_drops_its_added_partitions"
]


class EagerlyTiered:
    """Copies everything after each append, in objects of three records, and evicts it."""

    store: str
    clock: Clock
    moves: int = 0

    def append(self, topic: Any, *args: Any, **options: Any) -> Any:
        receipt = super().append(topic, *args, **options)  # type: ignore[misc]
        self._move(topic)
        return receipt

    def append_many(self, topic: Any, *args: Any, **options: Any) -> Any:
        receipts = super().append_many(topic, *args, **options)  # type: ignore[misc]
        self._move(topic)
        return receipts

    def _move(self, topic: str | Topic) -> None:
        name = topic.name if isinstance(topic, Topic) else topic
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            return
        if name.startswith("__strandline.") or threading.current_thread() is not _main():
            return
        # A rule that appends ten thousand times would otherwise make as many objects.
        self.moves += 1
        if self.moves > 16 and self.moves & (self.moves - 1):
            return
        # What a rule does to the log, closing it for instance, is not this call's matter.
        with contextlib.suppress(StrandlineError):
            tier(
                self,  # type: ignore[arg-type]
                topic,
                self.store,
                piece_records=3 if self.moves <= 16 else 1000,
                include_open=True,
                local_bytes=0,
            )


def _main() -> threading.Thread:
    return threading.main_thread()


class TieredLog(EagerlyTiered, Log):
    """A log over any store, with a tier."""


class Opened:
    """Opens new logs of one kind on one clock, and closes them."""

    def __init__(self, kind: str, folder: Path, clock: Clock) -> None:
        self._kind = kind
        self._folder = folder
        self._clock = clock
        self._logs: list[Any] = []

    def __call__(
        self, *, auto_create: bool = False, record_bytes_max: int = RECORD_BYTES_MAX
    ) -> Any:
        return self.on(self._clock, auto_create=auto_create, record_bytes_max=record_bytes_max)

    def on(self, clock: Clock, **options: Any) -> Any:
        path = str(self._folder / f"log-{next(_numbers)}")
        store: Any = (
            MemoryStore(clock)
            if self._kind == "memory"
            else (SqliteStore if self._kind == "sqlite" else FileStore)(path, clock=clock)
        )
        log: Any = TieredLog(store, tier=Tier(), clock=clock, **options)
        log.store = f"memory:///{next(_numbers)}"
        self._logs.append(log)
        return log

    def close(self) -> None:
        for log in self._logs:
            log.close()


# A tier knows only the port of a store, which each store's own tests hold to its rules.
@pytest.fixture(
    params=[
        "memory",
        pytest.param("sqlite", marks=pytest.mark.heavy),
        pytest.param("file", marks=pytest.mark.slow),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def opened(kind: str, tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(kind, tmp_path, SystemClock())
    yield opened
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("rule", cases(RULES))
def test_a_tiered_log_keeps(rule: conformance.Rule, opened: Opened) -> None:
    rule(opened)


@pytest.mark.parametrize("rule", TIMED_RULES, ids=conformance.name_of)
def test_a_tiered_log_keeps_in_time(rule: conformance.TimedRule, opened: Opened) -> None:
    rule(opened.on, FakeClock())


def test_everything_is_cold_after_an_append(opened: Opened) -> None:
    log = opened()
    log.create_topic("t")

    log.append_many("t", [Event("k", n) for n in range(10)])

    assert log.evict("t", 0, 0) == 10
    assert [record.payload for record in log.read("t", 0, 0)] == list(range(10))
    with pytest.raises(InvalidError):
        log.evict("t", 0, 11)
