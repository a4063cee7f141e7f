"""The lane of each partition: waiting appends are sent together, and stored once."""

import asyncio
import contextlib
from typing import Final

from strandline.log.chain import Chain
from strandline.log.loop_thread import LoopOutcome
from strandline.log.open_state import closed_log
from strandline.log.store import AppendRequest, dropped
from strandline.stores.append_queue import WaitingAppend, WaitingAppends
from strandline.stores.fenced_head import FencedHead
from strandline.stores.frame_records import frame_record
from strandline.stores.jetstream.connection import NatsTries, answer_of
from strandline.stores.jetstream.errors import (
    BATCH_INCOMPLETE,
    STREAM_NOT_FOUND,
    WRONG_LAST_SEQUENCE,
    ApiRefusedError,
    refused,
)
from strandline.stores.jetstream.frames import MessageFrame, split
from strandline.stores.jetstream.identities import PartitionIdentities
from strandline.stores.jetstream.keyed import Message, in_batch
from strandline.stores.jetstream.partition import JetStreamPartition, StreamHead, head_after
from strandline.stores.jetstream.streams import PLAIN, WITH_IDENTITIES
from strandline.stores.jetstream.trimming import begin_epoch, store_marks
from strandline.stores.lost_answer import LostError, NotSentError
from strandline.values import Durability, InvalidError, StrandlineError, UnknownError

#: The maximal size of a frame, unless one record is larger.
_FRAME_BYTES: Final = 512 * 1024
#: The server's limit of messages in a batch.
_FRAMES_MAX: Final = 1000
#: An upper bound of a message's size besides one record.
_OVERHEAD_BYTES: Final = 4096
_RECORDS_MAX: Final = 100_000
_ID_BYTES: Final = 16
#: How many identities are read from frames before they are stored separately.
_UNSAVED_MAX: Final = 20_000
_EXPECTED: Final = "Nats-Expected-Last-Sequence"


class JetStreamLane:
    """The write path of one partition. Any thread may append."""

    def __init__(self, partition: JetStreamPartition, chain: Chain, level: Durability) -> None:
        self.partition = partition
        self.identities: Final = PartitionIdentities(partition)
        self._chain = chain
        self._connection = connection = partition.connection
        self._queue = WaitingAppends(
            *(connection.state, connection.clock, connection.url, level),
            start=lambda: connection.call(self._begin_drain),
        )
        #: Referenced here, because a loop has only weak references to its tasks.
        self._draining: asyncio.Task[None] | None = None
        self.close: Final = self._queue.close
        #: The end after this process's last append, and the count of lost connections then.
        self._stored: StreamHead | None = None
        self._losses = 0

    # --- from any thread ---

    def append(
        self, request: AppendRequest, level: Durability, timeout_s: float | None, *, may_wait: bool
    ) -> LoopOutcome:
        """Append; see Store.append."""
        self._check_size(request)
        return self._queue.append(request, level, timeout_s, may_wait=may_wait)

    def _check_size(self, request: AppendRequest) -> None:
        """Raise InvalidError for an append that the server would refuse, without failing others."""
        sizes = [each.size_bytes for each in request.drafts]
        largest, limit = max(sizes, default=0), self._connection.max_payload - _OVERHEAD_BYTES
        if largest > limit:
            message = "this record is larger than the server's max_payload, raise that or split it"
            raise InvalidError(message, bytes=largest, bytes_max=limit)
        whole, whole_max = sum(sizes), self._frame_bytes * _FRAMES_MAX // 4
        if whole > whole_max or len(sizes) > _RECORDS_MAX:
            raise InvalidError(
                "these values are too large for one append, append fewer at a time",
                records=len(sizes),
                records_max=_RECORDS_MAX,
                bytes=whole,
                bytes_max=whole_max,
            )

    @property
    def _frame_bytes(self) -> int:
        return min(_FRAME_BYTES, self._connection.max_payload // 2)

    # --- on the loop ---

    def _begin_drain(self) -> None:
        self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        while batch := self._queue.taken():
            try:
                await self._store(batch)
            except (asyncio.CancelledError, GeneratorExit):
                self._queue.fail(batch, closed_log())
                raise
            except ApiRefusedError as error:
                self._queue.fail(batch, refused(error, self._connection.url))
            except StrandlineError as error:
                self._queue.fail(batch, error)
            except Exception as error:  # noqa: BLE001 - Every append must get an outcome.
                self._queue.fail(batch, UnknownError(error))

    async def _store(self, batch: list[WaitingAppend]) -> None:
        """Decide on appends and store them; repeat until no other writer intervenes."""
        tries = self._connection.tries(self._connection.patience_s)
        head, is_fresh = self.partition.known_head, False
        if self._stored is not None and self._losses != self._connection.losses:
            head = None
        while True:
            if head is None:
                head, is_fresh = await self._loaded_head(), True
            batch = self._queue.without_withdrawn(batch)
            known = None
            if any(each.request.has_identity for each in batch):
                known = await self.identities.catch_up(head)
            fenced = FencedHead(head, known)
            results = fenced.apply_each(batch, self._connection.clock, self._chain)
            is_final = is_fresh or not any(isinstance(each, Exception) for each in results)
            if fenced.records:
                is_final = await self._publish(batch, fenced, head, tries)
            if is_final:
                break
            head, is_fresh = None, False
        self._queue.settle(batch, results)
        if self.identities.unsaved >= _UNSAVED_MAX:
            await self._save_identities()

    async def _loaded_head(self) -> StreamHead:
        """Return the current end; begin an epoch if acknowledged records are missing."""
        head, last = await self.partition.head(), self._stored
        if last is not None and self._losses != self._connection.losses:
            losses = self._connection.losses
            is_there = last.sequence <= head.sequence
            if is_there:
                frame = await self.partition.frame(last.sequence)
                # A trimmed frame had been there.
                is_there = frame is None or frame.id == last.id
            if not is_there:
                start = min(last.next, head.next)
                await begin_epoch(self.partition, self._connection.clock.new_id(), start)
            self._losses, self._stored = losses, None
        return head

    async def _save_identities(self) -> None:
        """Store the identities, so that the next process has to read only few frames."""
        partition = self.partition
        with contextlib.suppress(StrandlineError, ApiRefusedError):
            stored, head = await partition.stored_marks(), await partition.head()
            known = await self.identities.catch_up(head)
            sequence = head.identity_sequence
            await store_marks(partition, stored, stored.marks, known.state(), sequence)
        # If that failed, a later append tries again.
        self.identities.unsaved = 0

    async def _publish(
        self, batch: list[WaitingAppend], fenced: FencedHead, head: StreamHead, tries: NatsTries
    ) -> bool:
        """Store what was decided, if the partition still ends at `head`; return whether it did."""
        frames = self._frames(fenced, head)
        subject = WITH_IDENTITIES if frames[0].identities else PLAIN
        messages: list[Message] = [
            (f"{self.partition.subject}.{PLAIN}", each.encode(), None) for each in frames
        ]
        expected = {_EXPECTED: str(head.sequence)}
        messages[0] = (f"{self.partition.subject}.{subject}", messages[0][1], expected)
        was_lost = False
        while True:
            if not self._queue.begin_sending(batch):
                return False
            try:
                sent = in_batch(self._connection, messages)
                answer_of(await self._connection.request_all(sent))
                break
            except NotSentError as error:
                self._queue.set_sent(batch, is_sent=was_lost)
                await self._check_dropped()
                await tries.rest(error)
            except InvalidError:
                # The server refused it because of missing rights.
                self._queue.set_sent(batch, is_sent=was_lost)
                raise
            except LostError as error:
                was_lost = True
                await self._check_dropped()
                await tries.rest(error)
            except ApiRefusedError as error:
                if error.code in WRONG_LAST_SEQUENCE:
                    if was_lost and await self._is_stored(frames[0].id, head.sequence + 1):
                        break
                    # Another writer was first, so these messages can never be stored.
                    self._queue.set_sent(batch, is_sent=False)
                    return False
                self._queue.set_sent(batch, is_sent=was_lost)
                if not error.is_passing and error.code not in BATCH_INCOMPLETE:
                    raise
                await tries.rest(error)
        self._advance(frames, head)
        return True

    def _frames(self, fenced: FencedHead, head: StreamHead) -> list[MessageFrame]:
        runs = split(fenced.records, self._frame_bytes)
        added = fenced.index.added
        latest = head.sequence + 1 if added else head.identity_sequence
        before, frames = head.bytes_total, []
        name = self._connection.clock.random_bytes(_ID_BYTES)
        for run in runs:
            records = [frame_record(each) for each in run]
            frames.append(MessageFrame(name, run[0].offset, before, latest, records, added))
            before += sum(each.size_bytes for each in run)
            added = []
        return frames

    def _advance(self, frames: list[MessageFrame], head: StreamHead) -> None:
        last = head.sequence + len(frames)
        self.identities.add(frames[0].identities, head)
        for sequence, frame in enumerate(frames, head.sequence + 1):
            self.partition.places.note(frame.start, sequence)
        self._stored = head_after(frames[-1], last)
        self._losses = self._connection.losses
        self.partition.advance(self._stored)

    async def _is_stored(self, name: bytes, sequence: int) -> bool:
        frame = await self.partition.frame(sequence)
        if frame is None:
            raise UnknownError(LostError("the answer was lost, and what is there was trimmed"))
        return frame.id == name

    async def _check_dropped(self) -> None:
        """Raise DroppedError if the stream is gone, because then it does not answer."""
        try:
            await self._connection.api_once(f"STREAM.INFO.{self.partition.stream.name}", b"")
        except LostError:
            return
        except ApiRefusedError as error:
            if error.code == STREAM_NOT_FOUND:
                raise dropped(self.partition.topic) from error
