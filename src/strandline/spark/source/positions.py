"""A stream's position in the log, as Spark stores it in a checkpoint.

`{"orders": {"0": 23, "1": 7}, "__strandline": …}`: the format of the Kafka source, and the log,
topics and epochs of the offsets, so that using a checkpoint with another log, or with one
that was restored from an older backup, is an error.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from strandline.log import LogReader
from strandline.spark.source.places import SourcePartition
from strandline.values import Epoch, InvalidError, Offset, Partition, Position

IDENTITY: Final = "__strandline"

Stored = dict[str, Any]


class Positions:
    """Writes and reads stored positions of one log.

    `reader`, the stream's consumer and log, is stored with them.
    """

    def __init__(
        self, log: LogReader, log_id: UUID, reader: Mapping[str, str | None] | None = None
    ) -> None:
        self._log = log
        self._log_id = log_id
        self._reader = reader or {}

    def stored(
        self, offsets: Mapping[SourcePartition, int], previous: Stored | None = None
    ) -> Stored:
        """Return the position for Spark to store; `previous` is the stored one."""
        found: Stored = {}
        epochs: dict[str, dict[str, str]] = {}
        for place in sorted(offsets, key=_order):
            name, number = place.topic.name, str(place.partition)
            found.setdefault(name, {})[number] = offsets[place]
            known = _known_epoch(previous, place, offsets[place])
            epochs.setdefault(name, {})[number] = known or self._epoch(place, offsets[place])
        found[IDENTITY] = {
            "log": str(self._log_id),
            "topics": {place.topic.name: str(place.topic.id) for place in offsets},
            "epochs": epochs,
            **self._reader,
        }
        return found

    def _epoch(self, place: SourcePartition, offset: int) -> str:
        """Return the epoch of the last record before `offset`."""
        epochs = self._log.epochs(*place)
        last = epochs[0]
        for epoch in epochs:
            if epoch.start < offset:
                last = epoch
        return _written(last)

    def resolve(self, stored: Stored, place: SourcePartition) -> int | None:
        """Return the offset of a partition; None if it is not in the checkpoint.

        DivergedError, TrimmedError and InvalidError as `log.resolve`; InvalidError also
        for another log, or if the topic was dropped and created again.
        """
        offset = offset_in(stored, place)
        if offset is None:
            return None
        identity: Any = stored.get(IDENTITY)
        try:
            epoch = identity["epochs"][place.topic.name][str(place.partition)]
            number, _, epoch_id = epoch.partition("/")
            position = Position(
                UUID(identity["log"]),
                UUID(identity["topics"][place.topic.name]),
                Partition(place.partition),
                Offset(offset),
                int(number),
                UUID(epoch_id),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidError("this checkpoint holds no place in a log", stored=stored) from error
        if position.log_id == self._log_id and position.topic_id != place.topic.id:
            raise InvalidError(
                "the topic was dropped and made again since the checkpoint, start a new query",
                topic=place.topic.name,
            )
        return int(self._log.resolve(position))


def offset_in(stored: Stored, place: SourcePartition) -> int | None:
    """Return the offset that is stored for a partition."""
    found = stored.get(place.topic.name, {}).get(str(place.partition))
    return None if found is None else int(found)


class StreamPlace(NamedTuple):
    """The position of a stream, with its consumer and its log."""

    url: str
    consumer: str
    tenant: str | None
    #: By topic id and partition.
    offsets: Mapping[tuple[UUID, int], int]


def stream_place(text: str | None) -> StreamPlace | None:
    """Return the position in an offset of Spark's progress; None if another source wrote it.

    None also for a stream without a consumer.
    """
    try:
        stored = msgspec.json.decode(text or "")
        identity = stored[IDENTITY]
        return StreamPlace(
            identity["url"],
            identity["consumer"],
            identity.get("tenant"),
            {
                (UUID(identity["topics"][name]), number): int(stored[name][str(number)])
                for name, number in names_in(stored)
            },
        )
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError):
        return None


def identity_in(stored: Stored, place: SourcePartition) -> tuple[str, ...]:
    """Return all stored fields of a partition, for a comparison."""
    name, number = place.topic.name, str(place.partition)
    identity = stored.get(IDENTITY, {})
    epoch = identity.get("epochs", {}).get(name, {}).get(number)
    topic = identity.get("topics", {}).get(name)
    return name, number, str(offset_in(stored, place)), str(epoch), str(topic)


def names_in(stored: Stored) -> Iterable[tuple[str, int]]:
    """Return the topics and partitions in a stored position."""
    return [
        (name, int(number)) for name, each in stored.items() if name != IDENTITY for number in each
    ]


def _known_epoch(previous: Stored | None, place: SourcePartition, offset: int) -> str | None:
    if previous is None or offset_in(previous, place) != offset:
        return None
    epochs = previous.get(IDENTITY, {}).get("epochs", {})
    known: str | None = epochs.get(place.topic.name, {}).get(str(place.partition))
    return known


def _written(epoch: Epoch) -> str:
    return f"{epoch.number}/{epoch.id}"


def _order(place: SourcePartition) -> tuple[str, int]:
    return place.topic.name, place.partition
