"""The cursor alone, in interleavings found by Hypothesis."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.subscriptions.cursor import Cursor, Cursors, Need, TopicPartition
from strandline.subscriptions.markers import CaughtUp, FellBehind, Marker
from strandline.values import Offset, Partition, Topic

TOPIC = Topic("orders", UUID("01890000-0000-7000-8000-000000000000"))
BEHIND_MAX = 3
PARTITIONS = 3
PLACES = [TopicPartition(TOPIC, Partition(n)) for n in range(PARTITIONS)]
PLACE = PLACES[0]

some_place = st.sampled_from(PLACES)


class CursorMachine(RuleBasedStateMachine):
    """A store of ends, a reader that holds one page, and hints that are not reliable."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = dict.fromkeys(PLACES, 0)
        self.cursors = Cursors(behind_max=BEHIND_MAX)
        self.expected: dict[TopicPartition, int] = {}
        self.said: dict[TopicPartition, list[Marker]] = {}
        self.page: list[int] = []
        self.page_of: Cursor | None = None

    @rule(place=some_place, count=st.integers(1, 6))
    def append(self, place: TopicPartition, count: int) -> None:
        self.ends[place] += count

    @rule(place=some_place, error=st.integers(-5, 5))
    def hint(self, place: TopicPartition, error: int) -> None:
        self.cursors.hint(place, self.ends[place] + error)

    @rule()
    def doubt(self) -> None:
        self.cursors.doubt()

    @rule(place=some_place, draw=st.data())
    def add(self, place: TopicPartition, draw: st.DataObject) -> None:
        if place not in self.cursors:
            start = draw.draw(st.integers(0, self.ends[place]))
            self.cursors.add(place, Offset(start), Offset(self.ends[place]))
            self.expected[place] = start
            self.said[place] = []

    @rule(place=some_place)
    def remove(self, place: TopicPartition) -> None:
        assert self.cursors.remove(place) == self.expected.pop(place, None)

    @precondition(lambda self: self.page_of is not None)
    @rule()
    def deliver(self) -> None:
        assert self.page_of is not None
        cursor, place = self.page_of, self.page_of.place
        if cursor.is_removed:
            self.page_of = None
            return
        if cursor.need is Need.EMIT_MARKER:
            self.on_hints(place, cursor.emit_marker())
            return
        offset = self.page.pop(0)
        cursor.deliver(offset)
        assert offset == self.expected[place]
        self.expected[place] += 1
        if not self.page:
            self.page_of = None
            self.cursors.queue(cursor)

    @precondition(lambda self: self.page_of is None)
    @rule()
    def serve(self) -> None:
        cursor = self.cursors.turn()
        if cursor is not None:
            self.give(cursor)

    def give(self, cursor: Cursor) -> None:
        place = cursor.place
        if cursor.need is Need.EMIT_MARKER:
            self.on_hints(place, cursor.emit_marker())
        elif cursor.need is Need.LOOK:
            cursor.look(self.ends[place])
        elif cursor.next < self.ends[place]:
            self.page = list(range(cursor.next, min(cursor.next + 2, self.ends[place])))
            self.page_of = cursor
            return
        else:
            cursor.find_nothing()
        self.cursors.queue(cursor)

    def on_hints(self, place: TopicPartition, marker: Marker) -> None:
        expected = self.expected[place]
        if isinstance(marker, CaughtUp):
            assert marker.offset == expected
        else:
            assert marker.last in (None, expected - 1)
        previous = self.said[place][-1] if self.said[place] else None
        assert isinstance(marker, CaughtUp) is not isinstance(previous, CaughtUp)
        self.said[place].append(marker)

    @invariant()
    def cursors_stand_where_they_should(self) -> None:
        for place, offset in self.expected.items():
            cursor = self.cursors.at(place)
            assert cursor is not None
            assert cursor.next == offset

    def teardown(self) -> None:
        """After a last poll, everything has come, and every cursor has reported it and rests."""
        self.cursors.doubt()
        for _ in range(10_000):
            if self.page_of is not None:
                self.deliver()
            elif (cursor := self.cursors.turn()) is not None:
                self.give(cursor)
            else:
                break
        assert self.page_of is None
        for place, offset in self.expected.items():
            assert offset == self.ends[place]
            assert isinstance(self.said[place][-1], CaughtUp)


CursorMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=50)
TestCursors: Any = pytest.mark.slow(CursorMachine.TestCase)


def test_a_cursor_first_rests_after_a_look_that_found_nothing_more() -> None:
    cursor = Cursor(PLACE, Offset(0), BEHIND_MAX)
    cursor.look(1)
    wants = [cursor.need]

    cursor.deliver(0)
    wants.append(cursor.need)
    cursor.look(1)
    cursor.emit_marker()
    wants.append(cursor.need)
    cursor.doubt()
    wants.append(cursor.need)

    assert wants == [Need.READ, Need.LOOK, Need.NOTHING, Need.LOOK]


def test_a_cursor_that_has_caught_up_rests_once_it_has_what_it_was_hinted_at() -> None:
    cursor = Cursor(PLACE, Offset(0), BEHIND_MAX)
    cursor.look(0)
    cursor.emit_marker()
    cursor.hint(2)
    wants = []

    for offset in range(2):
        wants.append(cursor.need)
        cursor.deliver(offset)
    wants.append(cursor.need)
    cursor.hint(2)
    wants.append(cursor.need)

    assert wants == [Need.READ, Need.READ, Need.NOTHING, Need.LOOK]


def test_a_hint_of_a_known_end_requests_a_look_also_amid_deliveries() -> None:
    cursor = Cursor(PLACE, Offset(0), BEHIND_MAX)
    cursor.look(0)
    cursor.emit_marker()
    cursor.hint(1)

    cursor.hint(0)
    cursor.deliver(0)

    assert cursor.need is Need.LOOK


def test_a_hint_that_was_wrong_is_replaced_by_a_look() -> None:
    cursor = Cursor(PLACE, Offset(0), BEHIND_MAX)
    cursor.hint(2)
    wants = [cursor.need]

    cursor.find_nothing()
    wants.append(cursor.need)
    cursor.look(0)

    assert wants == [Need.READ, Need.LOOK]
    assert cursor.emit_marker() == CaughtUp(PLACE.partition, Offset(0), TOPIC)
    assert cursor.need is Need.NOTHING


def test_an_old_hint_takes_nothing_back() -> None:
    cursor = Cursor(PLACE, Offset(0), BEHIND_MAX)

    cursor.hint(5)
    cursor.hint(3)

    assert cursor.end == 5


def test_fell_behind_needs_more_than_the_bound() -> None:
    cursor = Cursor(PLACE, Offset(0), BEHIND_MAX)
    cursor.look(0)
    cursor.emit_marker()

    cursor.hint(BEHIND_MAX)
    at_the_bound = cursor.need
    cursor.hint(BEHIND_MAX + 1)

    assert at_the_bound is Need.READ
    assert cursor.emit_marker() == FellBehind(PLACE.partition, None, TOPIC)
