"""One stream over its topic: its end, its writers, and its messages."""

import threading
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from strandline.durable_streams.stored_life import Lifetime, StreamKeys
from strandline.durable_streams.stream_settings import StreamSettings
from strandline.durable_streams.writers import (
    AppendMark,
    WriterState,
    mark_key,
    marked_event,
    message_of,
)
from strandline.log import Log, Value, parts_of
from strandline.values import (
    InvalidError,
    Position,
    Record,
    StrandlineError,
    Topic,
    TopicDescription,
    TrimmedError,
)

_SNAPSHOT_RECORDS: Final = 1000
"""After this many records the state of writers is stored, so that a start reads few."""
_LINEAGE_MAX: Final = 64
"""The maximum depth of forks."""


class StreamPage(NamedTuple):
    """Messages of a stream."""

    messages: list[bytes]
    next: int
    tail: int
    is_closed: bool
    """Whether the stream is closed, and the page has its last messages."""

    @property
    def is_up_to_date(self) -> bool:
        """Whether the page reaches the current end."""
        return self.next >= self.tail


class _WriterSnapshot(msgspec.Struct):
    position: str
    state: WriterState


class DurableStream:
    """A stream in a log. Any thread may use it."""

    def __init__(
        self,
        log: Log,
        found: TopicDescription,
        settings: StreamSettings,
        source: "DurableStream | None",
    ) -> None:
        self._log = log
        self.topic: Topic = found.topic
        self.settings = settings
        self.source = source
        self.depth: int = 0 if source is None else source.depth + 1
        if self.depth > _LINEAGE_MAX:
            raise InvalidError(
                f"streams are forked at most {_LINEAGE_MAX} deep", stream=found.topic.name
            )
        self.base: Final = 0 if settings.fork is None else settings.fork.base
        """How many messages belong to the source."""
        self.keys: Final = StreamKeys(log, found.topic)
        clock = parts_of(log).clock
        self.lifetime: Final = Lifetime(
            self.keys, clock, found.created_at_us, settings.ttl_s, settings.expires_at_us
        )
        self._lock = threading.Lock()
        self._state = WriterState()
        self._stored_end = 0
        self._is_loaded = False

    # --- its end, and its writers ---

    def state(self) -> WriterState:
        """Return the state of its writers at its current end. Must not be modified."""
        with self._lock:
            high = self._log.marks(self.topic, 0).high
            if not self._is_loaded or high < self._state.end:
                self._load()
            if high > self._state.end:
                for record in self._log.read(self.topic, 0, self._state.end, high):
                    self._state.take(record)
                self._store()
            return self._state

    @property
    def is_made(self) -> bool:
        """Whether everything with which it was created is stored."""
        return not self.settings.has_beginning or self._log.marks(self.topic, 0).high > 0

    def tail(self) -> int:
        """Return the end of its messages."""
        return self.base + self.state().tail

    def is_closed(self) -> bool:
        """Whether it is closed."""
        return self.state().is_closed

    def beginning(self) -> int:
        """Return the position of its first stored message."""
        if self.source is not None and self.base:
            return min(self.source.beginning(), self.base)
        return self.base + self._log.marks(self.topic, 0).low

    def _load(self) -> None:
        """Begin with the stored state, if the log still has the records before it."""
        state = WriterState(end=self._log.marks(self.topic, 0).low)
        raw = self.keys.writers()
        if raw is not None:
            try:
                snapshot = msgspec.json.decode(raw, type=_WriterSnapshot)
                end = self._log.resolve(Position.from_json(snapshot.position.encode()))
                state = snapshot.state if end == snapshot.state.end else state
            except (StrandlineError, msgspec.MsgspecError):
                # Lost, trimmed or damaged: compute the state from the existing records.
                pass
        self._state, self._stored_end, self._is_loaded = state, state.end, True

    def _store(self) -> None:
        if self._state.end - self._stored_end < _SNAPSHOT_RECORDS:
            return
        self._stored_end = self._state.end
        position = self._log.position(self.topic, 0, self._state.end).to_json().decode()
        self.keys.put_writers(msgspec.json.encode(_WriterSnapshot(position, self._state)))

    # --- values to append ---

    def values(
        self, messages: list[bytes], mark: AppendMark
    ) -> tuple[list[Value], list[str | None] | None]:
        """Return messages as values of the topic, the last one with the mark, and their keys."""
        if not messages:
            messages, mark = [b"null" if self.settings.is_json else b""], _emptied(mark)
        if self.settings.is_json:
            plain = AppendMark()
            return [
                *(marked_event(each, plain) for each in messages[:-1]),
                marked_event(messages[-1], mark),
            ], None
        values: list[Any] = list(messages)
        return values, [*([None] * (len(messages) - 1)), mark_key(mark)]

    # --- reading ---

    def read(self, start: int, records_max: int, bytes_max: int) -> StreamPage:
        """Return messages from a position on; TrimmedError if they were removed."""
        state = self.state()
        tail, is_closed = self.base + state.tail, state.is_closed
        if start > tail:
            raise InvalidError("this offset lies beyond the end of the stream", position=start)
        messages: list[bytes] = []
        size, place = 0, start
        for record in self.records(start, tail, records_max, bytes_max):
            message = message_of(record)
            size += len(message)
            if messages and size > bytes_max:
                break
            messages.append(message)
            place += 1
        return StreamPage(messages, place, tail, is_closed and place >= tail)

    def message(self, position: int) -> bytes | None:
        """Return one message; None at the end."""
        page = self.read(position, 1, 1)
        return page.messages[0] if page.messages else None

    def records(self, start: int, end: int, records_max: int, bytes_max: int) -> Iterator[Record]:
        """Yield the records between two positions, including the source's."""
        count = 0
        if start < self.base:
            source = self._existing_source()
            stop = min(end, self.base)
            for record in source.records(start, stop, records_max, bytes_max):
                count += 1
                yield record
            if count < stop - start:
                return
            start = stop
        if start < end and count < records_max:
            yield from self._log.read(
                self.topic,
                0,
                start - self.base,
                end - self.base,
                records_max=records_max - count,
                bytes_max=bytes_max,
            )

    def _existing_source(self) -> "DurableStream":
        if self.source is None:
            # The topic of its source was dropped through another interface.
            raise TrimmedError(self.base, stream=self.topic.name)
        return self.source


def _emptied(mark: AppendMark) -> AppendMark:
    return msgspec.structs.replace(mark, is_empty=True)
