"""Operations on a log; the calls and their results are noted in the journal of its disk.

Each operation is one call that a user could make. One that is not possible at the moment (such
as a trim of nothing) does nothing.
"""

from collections.abc import Callable, Sequence

from strandline.log import Log, Receipts
from strandline.values import Durability, Offset
from tests.model.disk import Disk
from tests.model.log_history import Identity, LogHistory, SeenRecord, event_of

Fact = Callable[[LogHistory], None]


class LogWorkload:
    """A user of a log, which `open_log` opens on the disk."""

    def __init__(
        self, disk: Disk, open_log: Callable[[Disk], Log], history: LogHistory, *, number: int = 0
    ) -> None:
        self.disk = disk
        self.history = history
        self.number = number
        self._open_log = open_log
        self._calls = 0
        self.log = open_log(disk)

    def run(self, names: Sequence[str]) -> None:
        """Do the operations of these names, one after the other."""
        for name in names:
            getattr(self, name)()

    def note(self, fact: Fact) -> None:
        self.disk.note(fact)
        fact(self.history)

    def topic(self) -> str | None:
        """Return the topic to work on: the newest."""
        names = self.history.names
        return names[-1] if names else None

    def create(self, partitions: int = 1) -> None:
        name = f"topic{self._next()}"
        self.note(lambda history: history.before_topic(name, partitions))
        topic = self.log.create_topic(name, partitions=partitions)
        self.note(lambda history: history.after_topic(name, topic.id))

    def create_wide(self) -> None:
        self.create(2)

    def drop(self) -> None:
        if (name := self.topic()) is None:
            return
        self.note(lambda history: history.before_drop(name))
        self.log.drop_topic(name)
        self.note(lambda history: history.after_drop(name))

    def recreate(self) -> None:
        """Drop a topic, and make another of the same name."""
        if (name := self.topic()) is None:
            return
        self.drop()
        self.note(lambda history: history.before_topic(name, 1))
        topic = self.log.create_topic(name)
        self.note(lambda history: history.after_topic(name, topic.id))

    def append_written(self) -> None:
        self._append(1, Durability.WRITTEN)

    def append_durable(self) -> None:
        self._append(1, Durability.DURABLE)

    def append_many(self) -> None:
        self._append(4, Durability.WRITTEN)

    def append_many_durable(self) -> None:
        self._append(3, Durability.DURABLE)

    def append_with_producer(self) -> None:
        identity = Identity(producer="shop", sequence=self._next())
        self._append(1, Durability.WRITTEN, identity)

    def append_many_with_producer(self) -> None:
        identity = Identity(producer="shop", sequence=self._next())
        self._append(2, Durability.WRITTEN, identity)

    def append_with_key(self) -> None:
        identity = Identity(idempotency_key=f"key{self._next()}")
        self._append(1, Durability.DURABLE, identity)

    def sync(self) -> None:
        if (place := self._place()) is None:
            return
        name, partition = place
        marks = self.log.sync(name, partition)
        self._note_durable(name, partition, marks.durable)

    def flush(self) -> None:
        ends = [
            (name, partition, self.log.marks(name, partition).high)
            for name in self.history.names
            for partition in range(self._partitions(name))
        ]
        self.log.flush()
        for name, partition, end in ends:
            self._note_durable(name, partition, end)

    def trim(self) -> None:
        if (place := self._place()) is None:
            return
        name, partition = place
        marks = self.log.marks(name, partition)
        before = marks.low + (marks.high - marks.low + 1) // 2
        self.note(lambda history: history.before_trim(name, partition, before))
        report = self.log.trim(name, partition, before, force=bool(self.number % 2))
        self.note(lambda history: history.after_trim(name, partition, report.low))

    def trim_all(self) -> None:
        if (place := self._place()) is None:
            return
        name, partition = place
        before = self.log.marks(name, partition).high
        self.note(lambda history: history.before_trim(name, partition, before))
        report = self.log.trim(name, partition, before, force=True)
        self.note(lambda history: history.after_trim(name, partition, report.low))

    def ack(self) -> None:
        self._move("billing", self._ack_to_end)

    def seek(self) -> None:
        self._move("audit", self._seek_back)

    def forget(self) -> None:
        if (name := self.topic()) is None:
            return
        self.note(lambda history: history.before_forget(name, "billing"))
        self.log.delete_consumer(name, "billing")
        self.note(lambda history: history.after_forget(name, "billing"))

    def change_retention(self) -> None:
        if (name := self.topic()) is None:
            return
        limit = 1_000_000 + self._next()
        self.note(lambda history: history.before_retention(name, limit))
        self.log.change_retention(name, retention_age_s=None, retention_bytes=limit)
        self.note(lambda history: history.after_retention(name, limit))

    def position(self) -> None:
        if (place := self._place()) is None:
            return
        name, partition = place
        end = self.log.marks(name, partition).high
        position = self.log.position(name, partition, end)
        self.note(lambda history: history.after_position(name, position))
        self._note_durable(name, partition, end)

    def reopen(self) -> None:
        self.log.close()
        self.log = self._open_log(self.disk)

    def _append(self, count: int, level: Durability, identity: Identity | None = None) -> None:
        if (place := self._place()) is None:
            return
        name, partition = place
        numbers = [self._next() for _ in range(count)]
        self.note(lambda history: history.before_append(name, partition, numbers, identity))
        receipts = append(self.log, place, numbers, level, identity)
        records = [
            SeenRecord(receipt.offset, number, receipt.timestamp_us)
            for receipt, number in zip(receipts, numbers, strict=True)
        ]
        self.note(lambda history: history.after_append(name, partition, records, level))

    def _move(self, consumer: str, move: Callable[[str, str, int], None]) -> None:
        if (place := self._place()) is not None:
            move(place[0], consumer, place[1])

    def _ack_to_end(self, name: str, consumer: str, partition: int) -> None:
        end = self.log.marks(name, partition).high
        self.note(lambda history: history.before_cursor(name, consumer, partition, end))
        cursor = self.log.ack(name, consumer, partition, end)
        self.note(lambda history: history.after_cursor(name, consumer, partition, cursor))
        self._note_durable(name, partition, end)

    def _seek_back(self, name: str, consumer: str, partition: int) -> None:
        marks = self.log.marks(name, partition)
        target = marks.high if self.number % 2 else marks.low
        self.note(lambda history: history.before_cursor(name, consumer, partition, target))
        self.log.seek(name, consumer, partition, target)
        self.note(lambda history: history.after_cursor(name, consumer, partition, Offset(target)))
        self._note_durable(name, partition, target)

    def _note_durable(self, name: str, partition: int, end: int) -> None:
        self.note(lambda history: history.after_sync(name, partition, end))

    def _place(self) -> tuple[str, int] | None:
        """Return a topic and one of its partitions, each in turn."""
        if (name := self.topic()) is None:
            return None
        self._calls += 1
        return name, self._calls % self._partitions(name)

    def _partitions(self, name: str) -> int:
        return len(self.log.describe_topic(name).marks)

    def _next(self) -> int:
        self.number += 1
        return self.number


def append(
    log: Log,
    place: tuple[str, int],
    numbers: Sequence[int],
    level: Durability,
    identity: Identity | None = None,
) -> Receipts:
    """Append the events of these numbers, together."""
    known = identity if identity is not None else Identity()
    return log.append_many(
        place[0],
        [event_of(number) for number in numbers],
        partition=place[1],
        durability=level,
        producer=known.producer,
        sequence=known.sequence,
        idempotency_key=known.idempotency_key,
    )


#: Every operation of a `LogWorkload`, by name.
OPERATIONS = (
    "create",
    "create_wide",
    "drop",
    "recreate",
    "append_written",
    "append_durable",
    "append_many",
    "append_many_durable",
    "append_with_producer",
    "append_many_with_producer",
    "append_with_key",
    "sync",
    "flush",
    "trim",
    "trim_all",
    "ack",
    "seek",
    "forget",
    "change_retention",
    "position",
    "reopen",
)
