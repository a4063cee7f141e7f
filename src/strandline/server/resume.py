"""Resume tokens: the offset of a stream in each partition, with its epoch."""

import base64
import binascii
from collections.abc import Mapping
from typing import Final
from uuid import UUID

import msgspec

from strandline.log import Log
from strandline.values import Epoch, InvalidError, Offset, Partition, Position, Topic
from strandline.values.position import epoch_before

_VERSION: Final = 1
_KEPT_MAX: Final = 10_000


class _Resume(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    log_id: bytes
    topic_id: bytes
    #: Partition, offset, number and id of the epoch before it.
    places: list[tuple[int, int, int, bytes]]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Resume).decode


class Epochs:
    """The epochs of partitions, looked up again once a partition has grown. Any thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        #: By topic and partition: the offset up to which the epochs are known, and the epochs.
        self._known: dict[tuple[UUID, int], tuple[int, tuple[Epoch, ...]]] = {}

    def before(self, topic: Topic, partition: int, offset: int) -> Epoch:
        """Return the epoch of the record before an offset that was read. Does not block on
        local logs."""
        place = topic.id, partition
        known = self._known.get(place)
        if known is None or known[0] < offset:
            # The end is read first: later records cause another lookup the next time.
            high = self._log.marks(topic, partition).high
            known = high, tuple(self._log.epochs(topic, partition))
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            self._known[place] = known
        return epoch_before(offset, known[1])


def resume_token(log_id: UUID, topic: Topic, places: Mapping[int, tuple[int, Epoch]]) -> str:
    """Return the resume token of a stream with these offsets."""
    each = [
        (partition, offset, epoch.number, epoch.id.bytes)
        for partition, (offset, epoch) in places.items()
    ]
    packed = _encode(_Resume(_VERSION, log_id.bytes, topic.id.bytes, each))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def positions_in(token: str) -> list[Position]:
    """Decode the positions in a token; InvalidError for any other text."""
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        stored = _decode(base64.b64decode(padded, altchars=b"-_", validate=True))
        if stored.version != _VERSION or not stored.places:
            raise InvalidError("this resume token is of another version", version=stored.version)
        log_id, topic_id = UUID(bytes=stored.log_id), UUID(bytes=stored.topic_id)
        return [
            Position(
                log_id,
                topic_id,
                Partition(_natural(partition)),
                Offset(_natural(offset)),
                number,
                UUID(bytes=epoch_id),
            )
            for partition, offset, number, epoch_id in stored.places
        ]
    except (msgspec.MsgspecError, ValueError, binascii.Error) as error:
        raise InvalidError("this is no resume token", reason=str(error)) from None


def _natural(number: int) -> int:
    if number < 0:
        raise ValueError("a number is negative")
    return number
