"""Which writes a partition has seen, folded from its frames and from what is stored of them."""

import asyncio
from typing import Final

import msgspec

from strandline.log.identities import (
    Identities,
    IdentityState,
    Original,
    check_same_count,
    passed_sequence,
)
from strandline.stores.jetstream.errors import LostError
from strandline.stores.jetstream.frames import FrameIdentity, decode_frame
from strandline.stores.jetstream.partition import JetStreamPartition, PartitionMarks, StreamHead
from strandline.stores.jetstream.streams import WITH_IDENTITIES
from strandline.values import CorruptError, Offset, Tenant

_PIECE_BYTES: Final = 256 * 1024
#: No record has an offset as high as this.
_ALL: Final = 1 << 62


class PartitionIdentities:
    """The writes that a partition can recognise, up to one of its frames. For one loop."""

    def __init__(self, partition: JetStreamPartition) -> None:
        self._partition = partition
        self._known = Identities()
        self._folding = asyncio.Lock()
        #: Up to which frame identities were folded; None before the first time.
        self._sequence: int | None = None
        self._losses = partition.connection.losses
        #: How many were folded since they were stored.
        self.unsaved: int = 0

    async def catch_up(self, head: StreamHead) -> Identities:
        """Return the identities of everything up to `head`."""
        # One at a time: folded out of order, a producer would seem to go back.
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
                    # They were stored and trimmed meanwhile.
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
        """Read them again when they are needed."""
        self._sequence = None

    def add(self, added: list[FrameIdentity], head: StreamHead) -> None:
        """Take note of identities that this process has just stored in the frame after `head`."""
        sequence = head.sequence + 1
        if added and self._sequence == head.identity_sequence and not self._folding.locked():
            self._fold(added)
            self._sequence = sequence

    def _fold(self, added: list[FrameIdentity]) -> None:
        for each in added:
            tenant = None if each.tenant is None else Tenant(each.tenant)
            original = Original(Offset(each.offset), each.timestamp_us, each.records)
            if each.sequence is None:
                self._known.add_key(tenant, each.name, original)
            else:
                self._known.add_sequence(tenant, each.name, each.sequence, original)
        self.unsaved += len(added)

    # --- what is stored ---

    async def _load(self) -> None:
        partition = self._partition
        while True:
            stored = await partition.stored_marks()
            state = await self._pieces(stored.marks)
            # A change between the two would mix the pieces of two states.
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
    """Return identities as they are stored: none for none."""
    if not state.producers and not state.keys:
        return []
    whole = msgspec.msgpack.encode(state)
    size = min(_PIECE_BYTES, max_payload // 2)
    return [whole[at : at + size] for at in range(0, len(whole), size)]


class AddedIdentities:
    """Implements IdentityIndex over what is stored, and keeps apart what is about to be."""

    def __init__(self, known: Identities) -> None:
        self._known = known
        self.added: list[FrameIdentity] = []
        self._keys: dict[tuple[Tenant | None, str], Original] = {}
        self._sequences: dict[tuple[Tenant | None, str], dict[int, Original]] = {}

    def find_key(self, tenant: Tenant | None, key: str, count: int) -> Original | None:
        original = self._keys.get((tenant, key))
        if original is None:
            return self._known.find_key(tenant, key, count)
        check_same_count(key, count, original.records)
        return original

    def find_sequence(self, tenant: Tenant | None, name: str, sequence: int) -> Original | None:
        added = self._sequences.get((tenant, name), {})
        if sequence in added:
            return added[sequence]
        found = self._known.find_sequence(tenant, name, sequence)
        if found is None and added and sequence < max(added):
            raise passed_sequence(name, sequence, max(added))
        return found

    def add_key(self, tenant: Tenant | None, key: str, original: Original) -> None:
        self._keys[tenant, key] = original
        self.added.append(FrameIdentity(tenant, key, None, *original))

    def add_sequence(
        self, tenant: Tenant | None, name: str, sequence: int, original: Original
    ) -> None:
        self._sequences.setdefault((tenant, name), {})[sequence] = original
        self.added.append(FrameIdentity(tenant, name, sequence, *original))
