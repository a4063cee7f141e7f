"""What a process knows of one partition: end, recent frames, and the positions of offsets."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, TypeVar
from uuid import uuid5

from confluent_kafka import Message

from strandline.log.chain import Chain
from strandline.log.store import PartitionState, dropped
from strandline.stores.frame_following import FrameFollowers
from strandline.stores.frame_marks import FrameMarks
from strandline.stores.frame_places import FramePlaces
from strandline.stores.kafka.clients import KafkaClients
from strandline.stores.kafka.errors import (
    GoneError,
    MissingError,
    StaleError,
)
from strandline.stores.kafka.fetching import MessagePlace
from strandline.stores.kafka.frames import (
    NO_NAME,
    KafkaFrame,
    PartitionEnd,
    PlacedFrame,
    end_after,
    placed_frame,
)
from strandline.stores.kafka.tries import KafkaTries
from strandline.stores.lost_answer import LostError
from strandline.values import CorruptError, StrandlineError, Topic

R = TypeVar("R")

#: How much of the end is cached, so that a reader that follows it needs no requests.
_TAIL_BYTES: Final = 4 * 1024 * 1024
_NAMES_MAX: Final = 4096
#: How far back to search for an end at first.
_BACK: Final = 8


class KafkaPartition:
    """One partition of a topic. Thread-safe.

    `is_there` returns whether the log still has the topic.
    """

    def __init__(
        self,
        clients: KafkaClients,
        place: MessagePlace,
        topic: Topic,
        chain: Chain | None,
        is_there: Callable[[], bool],
    ) -> None:
        self.clients = clients
        self.place = place
        self.topic = topic
        self._is_there = is_there
        epoch = 0, uuid5(topic.id, str(place.number)), 0
        self._new = FrameMarks(0, 0, 0, None if chain is None else chain.origin, [epoch])
        self._lock = threading.Lock()
        self._end: PartitionEnd | None = None
        #: The last frames that count, without a gap, and their total size.
        self._tail: deque[PlacedFrame] = deque()
        self._tail_bytes = 0
        #: The names of recent frames that counted, in order.
        self._names: dict[bytes, int] = {}
        self._places = FramePlaces()
        self.followers: Final = FrameFollowers()
        self._marks: tuple[int, FrameMarks] = -1, self._new
        #: How often everything cached was dropped.
        self.resets: int = 0

    # --- the end ---

    @property
    def known_end(self) -> PartitionEnd | None:
        """The cached end."""
        return self._end

    def end(self, tries: KafkaTries | None = None) -> PartitionEnd:
        """Return the current end; DroppedError if the topic is gone."""
        tries = self.clients.tries() if tries is None else tries
        while True:
            known = self._end
            stop = self.asked(lambda: self.clients.ends([self.place])[0], tries)
            if known is not None and stop == known.end:
                return known
            if known is not None and stop < known.end:
                # The brokers have lost messages: nothing cached is valid.
                self.forget()
                continue
            try:
                found = self._caught_up(stop, tries)
            except GoneError:
                self.forget()
                continue
            if found is not None:
                return found

    def _caught_up(self, stop: int, tries: KafkaTries) -> PartitionEnd | None:
        """Return the end once everything before `stop` was read; None to start again."""
        while True:
            known = self._end
            if known is None:
                self._begin(stop, tries)
                continue
            if known.end >= stop:
                return known
            self.fold(self._fetch(known.end, stop, tries))
            if self._end is None:
                return None

    def _begin(self, stop: int, tries: KafkaTries) -> None:
        """Find the last frame that certainly counts, and read what follows it."""
        first = self.asked(lambda: self.clients.first(self.place), tries)
        back = 1
        while True:
            start = max(first, stop - back)
            messages = list(self._messages(start, stop, tries))
            frames = [placed_frame(each) for each in messages]
            evident = next((index for index, each in enumerate(frames) if each.is_evident), None)
            # The log's first message counts: it is the very first, or a trim has left it first.
            if evident is None and start == first:
                evident = 0
            if evident is not None:
                break
            back *= _BACK
        with self._lock:
            if self._end is not None:
                return
            if not frames:
                if stop:
                    raise self.damaged(stop)
                self._end = self._empty()
                return
            anchor = frames[evident]
            if anchor.at == 0:
                self._end = self._empty()
                self._fold(frames[evident:])
            else:
                self._count(anchor)
                self._fold(frames[evident + 1 :])

    def _empty(self) -> PartitionEnd:
        return PartitionEnd(0, NO_NAME, -1, 0, 0, self._new.anchor, 0, -1, -1)

    def fold(self, messages: Sequence[Message]) -> bool:
        """Process messages that follow those seen so far; return whether the end moved."""
        frames = [placed_frame(each) for each in messages]
        with self._lock:
            before = self._end
            if before is not None:
                self._fold(frames)
            has_moved = self._end is not before
        if has_moved:
            self.followers.notice()
        return has_moved

    def advance(self, placed: PlacedFrame) -> None:
        """Record a frame that this process has stored."""
        with self._lock:
            if self._end is not None and self._end.end == placed.at:
                self._fold([placed])
        self.followers.notice()

    def forget(self) -> None:
        """Drop everything cached."""
        with self._lock:
            self.resets += 1
            self._end = None
            self._tail.clear()
            self._tail_bytes = 0
            self._names.clear()
            self._places.clear()
            self._marks = -1, self._new

    def forget_places(self) -> None:
        """Drop the positions of offsets: messages were deleted."""
        with self._lock:
            self._places.clear()

    def _fold(self, frames: Sequence[PlacedFrame]) -> None:
        for each in frames:
            known = self._end
            assert known is not None
            if each.at < known.end:
                continue
            if each.at > known.end:
                return
            if each.frame.after == known.name:
                self._count(each)
            else:
                self._end = known._replace(end=each.at + 1)

    def _count(self, placed: PlacedFrame) -> None:
        at, frame, size = placed
        self._end = end_after(placed)
        self._places.note(frame.start, at)
        self._names[frame.name] = at
        if len(self._names) > _NAMES_MAX:
            del self._names[next(iter(self._names))]
        if frame.saved is not None:
            self._marks = at, frame.saved.marks
        self._tail.append(placed)
        self._tail_bytes += size
        while len(self._tail) > 1 and self._tail_bytes > _TAIL_BYTES:
            self._tail_bytes -= self._tail.popleft().size_bytes

    def place_of(self, name: bytes) -> int | None:
        """Return the position of a counting frame with this name, if this process has seen it."""
        return self._names.get(name)

    # --- marks ---

    def marks(self, end: PartitionEnd) -> FrameMarks:
        """Return the marks at an end that was just read; GoneError if there are newer ones."""
        at, marks = self._marks
        if at == end.checkpoint:
            return marks
        if end.checkpoint < 0:
            return self._new
        saved = self.frame(end.checkpoint).saved
        if saved is None:
            raise self.damaged(end.checkpoint)
        with self._lock:
            self._marks = max(self._marks, (end.checkpoint, saved.marks), key=lambda each: each[0])
        return saved.marks

    def ends(self) -> tuple[FrameMarks, PartitionEnd]:
        """Return the current marks and end."""
        while True:
            end = self.end()
            try:
                return self.marks(end), end
            except GoneError:
                continue

    def state(self, *, is_durable: bool) -> PartitionState:
        """Return the partition as it is now."""
        marks, end = self.ends()
        return marks.state(end, is_durable=is_durable)

    # --- frames ---

    def frame(self, at: int) -> KafkaFrame:
        """Return the frame at a Kafka offset; GoneError if it is no longer stored."""
        return placed_frame(self._fetch(at, at + 1)[0]).frame

    def tail_from(self, offset: int) -> list[PlacedFrame] | None:
        """Return the frames from the one with this offset on; None if they must be fetched."""
        with self._lock:
            return self._tail_from(offset)

    def announced(self, offset: int) -> list[KafkaFrame] | None:
        """Return the frames from this offset on that this process has seen.

        None if a reader has to request them, or the marks.
        """
        with self._lock:
            known, (checkpoint, marks) = self._end, self._marks
            if known is None or known.checkpoint != checkpoint or offset < marks.oldest:
                return None
            tail = [] if offset >= known.next else self._tail_from(offset)
        return None if tail is None else [each.frame for each in tail]

    def _tail_from(self, offset: int) -> list[PlacedFrame] | None:
        if not self._tail or self._tail[0].frame.start > offset:
            return None
        found = list(takewhile(lambda each: each.frame.end > offset, reversed(self._tail)))
        found.reverse()
        return found

    def tail_after(self, name: bytes) -> list[PlacedFrame] | None:
        """Return the frames after the one of this name; None if they must be fetched."""
        with self._lock:
            for index, each in enumerate(self._tail):
                if each.frame.after == name:
                    return list(self._tail)[index:]
            return [] if self._tail and self._tail[-1].frame.name == name else None

    def counted(self, at: int, after: bytes | None, stop: int) -> Iterator[list[PlacedFrame]]:
        """Yield, in lists, the frames from `at` on that count.

        `after` is the last frame that counts before them; None if the frame at `at` counts.
        """
        while at < stop:
            messages = self._fetch(at, stop)
            found = []
            for each in map(placed_frame, messages):
                if after is None or each.frame.after == after:
                    after = each.frame.name
                    found.append(each)
            at += len(messages)
            yield found

    def locate(self, offset: int, end: PartitionEnd) -> int:
        """Return the Kafka offset of a frame that counts, at or shortly before this record's."""
        with self._lock:
            before, after = self._places.around(offset)
        low, low_start = (-1, -1) if before is None else (before[1], before[0])
        if before is None:
            low = self.asked(lambda: self.clients.first(self.place))
            low_start = self.frame(low).start
        high, high_start = (end.end, end.next) if after is None else (after[1], after[0])
        is_bisecting = False
        while high - low > _BACK:
            guess = low + (offset - low_start) * (high - low) // max(1, high_start - low_start)
            at = (low + high) // 2 if is_bisecting else max(low + 1, min(high - 1, guess))
            is_bisecting = not is_bisecting
            found = self._evident(at, high)
            if found is None or found.frame.start > offset:
                high = at
                high_start = high_start if found is None else min(high_start, found.frame.start)
                continue
            low, low_start = found.at, found.frame.start
            with self._lock:
                self._places.note(low_start, low)
            if found.frame.end > offset:
                break
        return low

    def frame_with(self, offset: int, end: PartitionEnd) -> PlacedFrame:
        """Return the frame with the record at a stored offset."""
        tail = self.tail_from(offset)
        pages: Iterable[list[PlacedFrame]] = [tail or []]
        if tail is None:
            pages = self.counted(self.locate(offset, end), None, end.end)
        for page in pages:
            for each in page:
                if each.frame.start <= offset < each.frame.end:
                    return each
        raise self.damaged(offset)

    def _evident(self, at: int, stop: int) -> PlacedFrame | None:
        """Return the first frame from `at` on that certainly counts; None if there is none."""
        while at < stop:
            messages = self._fetch(at, stop)
            for each in map(placed_frame, messages):
                if each.is_evident:
                    return each
            at += len(messages)
        return None

    def _messages(self, start: int, stop: int, tries: KafkaTries) -> Iterator[Message]:
        at = start
        while at < stop:
            found = self._fetch(at, stop, tries)
            at += len(found)
            yield from found

    def _fetch(self, at: int, stop: int, tries: KafkaTries | None = None) -> list[Message]:
        return self.asked(lambda: self.clients.fetch(self.place, at, stop), tries)

    def asked(self, call: Callable[[], R], tries: KafkaTries | None = None) -> R:
        """Return the result of a call to the brokers; DroppedError if the topic is gone."""
        tries = self.clients.tries() if tries is None else tries
        while True:
            self.clients.state.check()
            try:
                return call()
            except (MissingError, StaleError) as error:
                self.check_there()
                self.clients.refresh(self.place.topic)
                tries.rest(error)
            except LostError as error:
                tries.rest(error)

    def check_there(self) -> None:
        """Raise DroppedError if the topic is gone."""
        if not self._is_there():
            raise dropped(self.topic)

    def damaged(self, position: int) -> StrandlineError:
        """Return the error for a missing record."""
        name, number = self.place
        return CorruptError(
            "a record is missing, restore it from a copy",
            file=f"{name}/{number}",
            position=position,
            topic=self.topic.name,
            partition=number,
        )
