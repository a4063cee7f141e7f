"""TC21: at least once, and nothing skipped, whatever is lost and whenever a reader attaches.

Exactly once, in fact: the cursor reads by offset, so not even the seam repeats.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.subscriptions.cursor import Cursor
from strandline.subscriptions.pages import Pages
from strandline.testing import FakeClock
from strandline.values import Offset
from tests.typed.schedules import Schedule

pytestmark = pytest.mark.slow

#: Many more are in torture.
SEEDS = 300
SEEDS_ON_DISK = 30


@contextmanager
def opened(url: str) -> Iterator[tuple[sl.Log, FakeClock]]:
    clock = FakeClock()
    with sl.open(url, clock=clock) as log:
        yield log, clock


def first_wrong(url: str, seeds: range) -> str:
    """Return what the first bad schedule did; nothing if all are good."""
    with opened(url) as (log, clock):
        for seed in seeds:
            if wrong := Schedule(log, clock, f"orders-{seed}", seed).run():
                return f"seed {seed}: {wrong}"
            log.drop_topic(f"orders-{seed}")
    return ""


def some_seeds(count: int) -> range:
    first = int.from_bytes(os.urandom(4), "big")
    return range(first, first + count)


def test_every_reader_gets_everything_from_its_start_on() -> None:
    """TC21."""
    assert not (wrong := first_wrong("memory:", some_seeds(SEEDS))), wrong


@pytest.mark.parametrize("backend", ["file", "sqlite"])
def test_every_reader_gets_everything_from_its_start_on_disk(backend: str, tmp_path: Path) -> None:
    """TC21."""
    url = f"{backend}:{tmp_path / 'events'}"
    assert not (wrong := first_wrong(url, some_seeds(SEEDS_ON_DISK))), wrong


# --- planted bugs ---


def caught() -> str:
    """Return what the first schedules make of the bug: a wrong outcome, or a failed check."""
    try:
        return first_wrong("memory:", range(200))
    except AssertionError as error:
        return f"check: {error}"


def test_a_replay_that_is_read_before_the_live_tail_is_attached_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = Cursor.look

    def look_late(self: Cursor, end: int) -> None:
        """Take the tail to begin where the topic ends by now."""
        if self.next == self.end and end > self.end and not self._has_caught_up:
            self.next = Offset(end)
        look(self, end)

    monkeypatch.setattr(Cursor, "look", look_late)

    assert caught()


def test_a_gap_that_is_not_filled_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    hint = Cursor.hint

    def hint_as_data(self: Cursor, end: int) -> None:
        """Take a wake-up for the one record that it is about."""
        if self._has_caught_up and end - 1 > self.next:
            self.next = Offset(end - 1)
        hint(self, end)

    monkeypatch.setattr(Cursor, "hint", hint_as_data)

    assert caught()


def test_a_filter_before_continuity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver, read = Cursor.deliver, Pages._read  # noqa: SLF001

    def read_filtered(self: Any, cursor: Cursor) -> None:
        """Pass over what is hidden before the cursor has counted it."""
        read(self, cursor)
        kept = [record for record in self._page if record.tenant != "b"]
        if len(kept) < len(self._page):
            self._page.clear()
            self._page.extend(kept)
            if not kept:
                cursor.next = cursor.end
                self._cursors.queue(cursor)

    def deliver_any(self: Cursor, offset: int) -> None:
        self.next = Offset(offset)
        deliver(self, offset)

    monkeypatch.setattr(Pages, "_read", read_filtered)
    monkeypatch.setattr(Cursor, "deliver", deliver_any)

    assert caught()


def test_a_repeat_at_the_seam_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver, repeated = Cursor.deliver, set()

    def deliver_again(self: Cursor, offset: int) -> None:
        """Begin the live tail with the last record of the replay."""
        deliver(self, offset)
        if offset + 1 == self.end and id(self) not in repeated:
            repeated.add(id(self))
            self.next = Offset(offset)

    monkeypatch.setattr(Cursor, "deliver", deliver_again)

    assert caught()
