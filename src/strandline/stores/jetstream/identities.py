"""The identities that a partition recognises, from stored ones and from frames since."""

import asyncio
from typing import Final

import msgspec

from strandline.log.identities import Identities, IdentityState
from strandline.stores.fenced_head import fold
from strandline.stores.frame_records import FrameIdentity
from strandline.stores.jetstream.frames import decode_frame
from strandline.stores.jetstream.partition import JetStreamPartition, PartitionMarks, StreamHead
from strandline.stores.jetstream.streams import WITH_IDENTITIES
from strandline.stores.lost_answer import LostError
from strandline.values import CorruptError

_PIECE_BYTES: Final = 256 * 1024
#: No record has an offset as high as this.
_ALL: Final = 1 << 62


class PartitionIdentities:
    """The identities that a partition recognises, up to one of its frames. For one loop."""

    def __init__(self, partition: JetStreamPartition) -> None:
        self._partition = partition
        self._known = Identities()
        self._folding = asyncio.Lock()
        #: The frame up to which identities were read; None before the first read.
        self._sequence: int | None = None
        self._losses = partition.connection.losses
        #: How many were read since they were last stored.
        self.unsaved: int = 0

    async def catch_up(self, head: StreamHead) -> Identities:
        """Return the identities of everything up to `head`."""
        # One task at a time: read out of order, a producer would seem to go back.
        async with self._folding:
            return await self._catch_up(head)

    async def _catch_up(self, head: StreamHead) -> Identities:
        if self._sequence is None or self._losses != self._partition.connection.losses:
            self._losses = self._partition.connection.losses
            await self._load()
        assert self._sequence is not None
        partition = self._partition
        tries = partition.connection.tries()
        while self._sequence < head.identity_sequence:
            subject = f"{partition.subject}.{WITH_IDENTITIES}"
            messages = await partition.stream.page(self._sequence + 1, subject)
            if not messages:
                if (await partition.stored_marks()).marks.identity_sequence > self._sequence:
                    # They were stored and their frames trimmed meanwhile.
                    await self._load()
                    continue
                await tries.rest(LostError("no replica has it yet"))
            for message in messages:
                if self._sequence < message.sequence <= head.sequence:
                    frame = decode_frame(message, partition.stream.name)
                    self._fold(frame.identities)
                    self._sequence = message.sequence
        return self._known

    def forget(self) -> None:
        """Drop the cache; it is read again when needed."""
        self._sequence = None

    def add(self, added: list[FrameIdentity], head: StreamHead) -> None:
        """Record identities that this process has just stored in the frame after `head`."""
        sequence = head.sequence + 1
        if added and self._sequence == head.identity_sequence and not self._folding.locked():
            self._fold(added)
            self._sequence = sequence

    def _fold(self, added: list[FrameIdentity]) -> None:
        fold(self._known, added)
        self.unsaved += len(added)

    # --- what is stored ---

    async def _load(self) -> None:
        partition = self._partition
        while True:
            stored = await partition.stored_marks()
            state = await self._pieces(stored.marks)
            # A change between the two reads would mix pieces of two states.
            if (await partition.stored_marks()).sequence == stored.sequence:
                break
        self._sequence = stored.marks.identity_sequence
        self._known = Identities() if state is None else Identities.of(state, _ALL)
        self.unsaved = 0

    async def _pieces(self, marks: PartitionMarks) -> IdentityState | None:
        if not marks.identity_pieces:
            return None
        subject = self._partition.identities_subject
        found = [
            await self._partition.keyed.get(f"{subject}.{number}")
            for number in range(marks.identity_pieces)
        ]
        if any(each is None for each in found):
            return None
        try:
            joined = b"".join(each.value for each in found if each is not None)
            return msgspec.msgpack.decode(joined, type=IdentityState)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise CorruptError(
                "the identities of a partition cannot be read", file=subject, position=0
            ) from error


def pieces_of(state: IdentityState, max_payload: int) -> list[bytes]:
    """Encode identities in pieces for storage; no pieces if there are none."""
    if not state.producers and not state.keys:
        return []
    whole = msgspec.msgpack.encode(state)
    size = min(_PIECE_BYTES, max_payload // 2)
    return [whole[at : at + size] for at in range(0, len(whole), size)]
