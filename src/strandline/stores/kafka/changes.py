"""Changes of keyed values, as messages: every process decides equally whether each applies."""

from typing import Final, NamedTuple

import msgspec

from strandline.values import CorruptError

_FORMAT: Final = b"SLK\x01"


class KeyCondition(msgspec.Struct, array_like=True, frozen=True):
    """A condition of a change on one key."""

    key: str
    #: The expected version; 0 if the key never had a value.
    version: int
    #: Whether its lease must have expired, too.
    is_over: bool = False


class KeyPut(msgspec.Struct, array_like=True, frozen=True):
    """A new value of a key; None removes it."""

    key: str
    value: bytes | None
    #: The lease, by the broker's clock, after which it may be taken over; None for no expiry.
    lease_ms: int | None = None


class KeyedEntry(msgspec.Struct, array_like=True, frozen=True):
    """The stored state of a key."""

    #: One more than Kafka's offset of the change: it rises, and is 0 for no value.
    version: int
    value: bytes | None
    over_ms: int | None = None


class KeyedMessage(msgspec.Struct, array_like=True, frozen=True):
    """The content of one message: a change, or a snapshot of all values."""

    name: bytes
    conditions: list[KeyCondition]
    puts: list[KeyPut]
    #: For a snapshot: the position at which it counts, and each entry by its key.
    claim: int = -1
    entries: dict[str, KeyedEntry] | None = None

    def encode(self) -> bytes:
        """Return the message as it is stored."""
        return _FORMAT + _encoder.encode(self)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(KeyedMessage)


def decode_message(value: bytes, file: str, position: int) -> KeyedMessage | None:
    """Decode a message; None for another program's message; CorruptError if it is damaged."""
    if not value.startswith(_FORMAT):
        return None
    try:
        return _decoder.decode(memoryview(value)[len(_FORMAT) :])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CorruptError(
            "a keyed value of the log cannot be read, restore the topic from a copy",
            file=file,
            position=position,
        ) from error


class AppliedChange(NamedTuple):
    """The outcome of a change."""

    is_applied: bool
    version: int


class KeyedState:
    """All keyed values after some number of messages. Not thread-safe.

    The effect of a message depends only on the messages before it.
    """

    def __init__(self) -> None:
        self.entries: dict[str, KeyedEntry] = {}
        #: Kafka's offset of the next message.
        self.next: int = 0
        #: The position of the last snapshot.
        self.snapshot: int = 0

    def apply(self, message: KeyedMessage | None, at: int, time_ms: int) -> AppliedChange:
        """Apply the message at a position, with the time at which the broker stored it."""
        self.next = at + 1
        if message is None:
            return AppliedChange(is_applied=False, version=0)
        if message.entries is not None:
            if message.claim != at:
                return AppliedChange(is_applied=False, version=0)
            self.entries = {
                key: each for key, each in message.entries.items() if each.value is not None
            }
            self.snapshot = at
            return AppliedChange(is_applied=True, version=at + 1)
        if not all(self._holds(each, time_ms) for each in message.conditions):
            return AppliedChange(is_applied=False, version=0)
        for key, value, lease_ms in (_parts(each) for each in message.puts):
            over_ms = None if lease_ms is None else time_ms + lease_ms
            # A removed key keeps its version, so that a late copy of a change cannot apply.
            self.entries[key] = KeyedEntry(at + 1, value, over_ms)
        return AppliedChange(is_applied=True, version=at + 1)

    def _holds(self, condition: KeyCondition, time_ms: int) -> bool:
        entry = self.entries.get(condition.key)
        if entry is None:
            return condition.version == 0
        is_over = entry.value is None or (entry.over_ms is not None and entry.over_ms <= time_ms)
        return entry.version == condition.version and (is_over or not condition.is_over)


def _parts(put: KeyPut) -> tuple[str, bytes | None, int | None]:
    return put.key, put.value, put.lease_ms
