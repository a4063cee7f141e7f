"""What a process knows of one partition: marks, end, and the positions of offsets."""

import asyncio
from typing import Final, NamedTuple

import msgspec

from strandline.log.store import PartitionState, dropped
from strandline.stores.frame_following import FrameFollowers
from strandline.stores.frame_marks import FrameMarks
from strandline.stores.frame_places import FramePlaces
from strandline.stores.jetstream.connection import NatsConnection
from strandline.stores.jetstream.errors import STREAM_NOT_FOUND, ApiRefusedError
from strandline.stores.jetstream.frames import MessageFrame, decode_frame
from strandline.stores.jetstream.keyed import KeyedStream, SubjectValue
from strandline.stores.jetstream.recent import RecentFrame, RecentFrames
from strandline.stores.jetstream.streams import LogNames, LogStream, StoredMessage
from strandline.values import CorruptError, StrandlineError, Topic


class PartitionMarks(FrameMarks, array_like=True, frozen=True):
    """The stored metadata of a partition."""

    #: The frame up to which the stored identities are complete, and the number of their pieces.
    identity_sequence: int = 0
    identity_pieces: int = 0

    def to_bytes(self) -> bytes:
        """Encode it for storage."""
        return msgspec.msgpack.encode(self)


class StoredMarks(NamedTuple):
    """Marks, and the sequence that a change of them must expect."""

    sequence: int
    marks: PartitionMarks


class StreamHead(NamedTuple):
    """The end of a partition."""

    #: The sequence of the last message; 0 if there never was one.
    sequence: int
    id: bytes
    next: int
    last_us: int
    #: The chain's value at the end; None in a topic without a proof.
    value: bytes | None
    #: The size of all records ever appended, as counted against limits.
    bytes_total: int
    identity_sequence: int


class JetStreamPartition:
    """One partition of a topic. For one event loop, unless a method's docstring differs."""

    def __init__(
        self,
        connection: NatsConnection,
        keyed: KeyedStream,
        names: LogNames,
        topic: Topic,
        partition: int,
    ) -> None:
        self.connection = connection
        self.keyed = keyed
        self.topic = topic
        self.number = partition
        self.stream: Final = LogStream(connection, names.partition(topic.id, partition))
        self.subject: Final = names.frames(topic.id, partition)
        self.marks_subject: Final = names.keyed("m", topic.id.hex, partition)
        self.identities_subject: Final = names.keyed("i", topic.id.hex, partition)
        self.places: Final = FramePlaces()
        self._recent = RecentFrames()
        self.followers: Final = FrameFollowers()
        self._losses = connection.losses
        self._head: StreamHead | None = None

    # --- marks ---

    async def stored_marks(self) -> StoredMarks:
        """Return the current marks; DroppedError if there are none."""
        found = await self.keyed.get(self.marks_subject)
        return self._loaded(found)

    def _loaded(self, found: SubjectValue | None) -> StoredMarks:
        if found is None:
            raise dropped(self.topic)
        try:
            marks = msgspec.msgpack.decode(found.value, type=PartitionMarks)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise CorruptError(
                "the marks of a partition cannot be read",
                file=self.marks_subject,
                position=found.sequence,
            ) from error
        return StoredMarks(found.sequence, marks)

    async def ends(self) -> tuple[PartitionMarks, StreamHead]:
        """Return the current marks and end."""
        head, stored = await asyncio.gather(self._fresh_last(), self.stored_marks())
        return stored.marks, self._or_empty(head, stored.marks)

    async def ends_for(self, offset: int) -> tuple[PartitionMarks, StreamHead, list[MessageFrame]]:
        """Return what `ends` does, and the announced frames from this offset on."""
        marks, head = await self.ends()
        known = self.known_head
        return marks, head, [] if known is None else self._recent.since(offset)

    async def state(self, *, is_durable: bool) -> PartitionState:
        """Return the partition as it is now."""
        marks, head = await self.ends()
        return marks.state(head, is_durable=is_durable)

    # --- the end ---

    @property
    def known_head(self) -> StreamHead | None:
        """The cached end; None if the connection was lost since."""
        if self._losses != self.connection.losses:
            # A server that lost its last seconds may have other frames in their place now.
            self._losses = self.connection.losses
            self._head = None
            self.places.clear()
            self._recent.clear()
        return self._head

    async def head(self) -> StreamHead:
        """Return the current end."""
        last = await self._fresh_last()
        if last is None:
            return self._or_empty(None, (await self.stored_marks()).marks)
        return last

    def advance(self, head: StreamHead) -> None:
        """Record an end that this process has produced, or was notified of."""
        if self._head is None or head.sequence >= self._head.sequence:
            self._head = head

    def on_frame(self, message: StoredMessage) -> int:
        """Record an announced frame; return where it ends."""
        frame = decode_frame(message, self.stream.name)
        known = self.known_head
        if known is not None and message.sequence > known.sequence:
            self.advance(head_after(frame, message.sequence))
        self.places.note(frame.start, message.sequence)
        self._recent.add(RecentFrame(message.sequence, frame, len(message.data)))
        self.followers.notice()
        return frame.end

    def announced(self, offset: int) -> list[MessageFrame] | None:
        """Return the announced frames from this offset on. From any thread.

        None if a reader has to request them.
        """
        if self._losses != self.connection.losses:
            return None
        found, end = self._recent.since(offset), self._recent.end
        return found if found or end is None or end <= offset else None

    async def _fresh_last(self) -> StreamHead | None:
        known = self.known_head
        with_stream = self._translated
        # While small frames follow each other, request the last one at once.
        if known is not None and known.sequence and not self._recent.ends_small:
            async with with_stream():
                newer = await self.stream.get(seq=known.sequence + 1)
            if newer is None:
                return known
        async with with_stream():
            last = await self.stream.get(last_by_subj=f"{self.subject}.*")
        if last is None:
            return known
        head = head_after(decode_frame(last, self.stream.name), last.sequence)
        self._head = head
        return head

    def _or_empty(self, head: StreamHead | None, marks: PartitionMarks) -> StreamHead:
        if head is not None:
            return head
        return StreamHead(0, b"", marks.oldest, 0, marks.anchor, marks.bytes_before, 0)

    # --- frames ---

    async def frame(self, sequence: int) -> MessageFrame | None:
        """Return one frame from the leader; None if it is gone."""
        async with self._translated():
            message = await self.stream.get(seq=sequence)
        if message is None:
            return None
        frame = decode_frame(message, self.stream.name)
        self.places.note(frame.start, sequence)
        return frame

    async def locate(self, offset: int, head: StreamHead) -> tuple[int, MessageFrame]:
        """Return the frame with a stored offset, and its sequence."""
        before, after = self.places.around(offset)
        if before is None:
            async with self._translated():
                first = await self.stream.get(seq=0, next_by_subj=f"{self.subject}.*")
            if first is None:
                raise self.missing(offset)
            start = decode_frame(first, self.stream.name).start
            self.places.note(start, first.sequence)
            before = start, first.sequence
        low, high = before[1], head.sequence if after is None else after[1] - 1
        low_start, high_end = before[0], head.next if after is None else after[0]
        is_bisecting = False
        while low <= high:
            guess = low + (offset - low_start) * (high - low + 1) // max(1, high_end - low_start)
            sequence = (low + high) // 2 if is_bisecting else max(low, min(high, guess))
            is_bisecting = not is_bisecting
            frame = await self.frame(sequence)
            if frame is None:
                break
            if offset < frame.start:
                high, high_end = sequence - 1, frame.start
            elif offset >= frame.end:
                low, low_start = sequence + 1, frame.end
            else:
                return sequence, frame
        raise self.missing(offset)

    def missing(self, offset: int) -> StrandlineError:
        """Return the error for a missing record."""
        where = {"topic": self.topic.name, "partition": self.number, "offset": offset}
        message = "a record is missing, restore it from a copy"
        return CorruptError(message, file=self.stream.name, position=offset, **where)

    def _translated(self) -> "_Dropping":
        return _Dropping(self.topic)


class _Dropping:
    """Raises DroppedError if the stream is gone."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ApiRefusedError) and error.code == STREAM_NOT_FOUND:
            raise dropped(self._topic) from error


def head_after(frame: MessageFrame, sequence: int) -> StreamHead:
    """Return the end of a partition whose last frame is this one."""
    last = frame.records[-1]
    total = frame.bytes_before + sum(each.size_bytes for each in frame.records)
    return StreamHead(
        *(sequence, frame.id, frame.end, last.timestamp_us, last.chained, total),
        frame.identity_sequence,
    )
