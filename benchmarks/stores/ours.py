"""Ours: one topic with one partition."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import strandline as sl
from benchmarks.events import Payload, Sample
from strandline.log import Log
from strandline.log.draft import Draft
from strandline.log.history import EventBody
from strandline.stores.files.frame import ROWS, encode_frame, encode_rows
from strandline.values import Durability
from tests.logs import file_log

TOPIC = "events"


def event_of(sample: Sample) -> sl.Event:
    """Return the sample as our users make it."""
    return sl.Event(sample.kind, sample.payload, key=sample.key, headers=sample.headers)


def frame_of(event: sl.Event, number: int) -> bytes:
    """Return the event as our own encoder puts it into a file: a frame with a checksum."""
    body = EventBody(event.kind, event.payload_json, event.headers_json, event.occurred_at_us)
    rows = encode_rows([Draft(event.key, body, 0)])
    return encode_frame(0, 0, (ROWS, 0, number, 1, number, 0), rows)[0]


def url_of(path: Path) -> str:
    """Return the URL of the log that most entries measure."""
    return f"file:{path}"


class OurLog:
    """A log, with one level for all events."""

    def __init__(self, log: Log, durability: Durability, partitions: int = 1) -> None:
        self.log = log
        self._durability = durability
        self.log.create_topic(TOPIC, partitions=partitions)

    def append(self, sample: Sample) -> None:
        self.log.append(TOPIC, event_of(sample), durability=self._durability)

    def encoded(self, samples: Sequence[Sample]) -> list[sl.Event]:
        return [event_of(sample) for sample in samples]

    def append_encoded(self, events: list[sl.Event]) -> None:
        self.log.append_many(TOPIC, events, durability=self._durability)

    def scan(self) -> int:
        return sum(batch.num_rows for batch in self.log.read_batches(TOPIC, 0, 0))

    def payloads(self) -> Iterator[Payload]:
        for record in self.log.read(TOPIC, 0, 0):
            yield record.payload

    def seal(self) -> None:
        """Bring what was written into the form in which it stays."""
        assert isinstance(self.log, Log)
        self.log.seal(TOPIC)

    def close(self) -> None:
        self.log.close()


class OurAsyncLog:
    """The same for the tasks of a loop: a receipt that is awaited."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self._store = shared(path, durability)
        self._log = sl.AsyncLog(self._store.log)
        self._durability = durability

    async def append(self, sample: Sample) -> None:
        await self._log.append(TOPIC, event_of(sample), durability=self._durability)

    def close(self) -> None:
        self._store.close()


def shared(path: Path, durability: Durability) -> OurLog:
    """Open as by default: other processes may append, too."""
    return OurLog(sl.open(url_of(path)), durability)


def over_partitions(path: Path, durability: Durability) -> OurLog:
    """Open with a topic of sixteen partitions, among which keys decide."""
    return OurLog(sl.open(url_of(path)), durability, partitions=16)


def exclusive(path: Path, durability: Durability) -> OurLog:
    """Open for this process alone."""
    return OurLog(sl.open(url_of(path), exclusive=True), durability)


def with_segments(path: Path, segment_bytes: int, *, is_cold: bool) -> OurLog:
    """Open with segments of a size, of which those that are sealed are compressed if cold."""
    compression = "zstd" if is_cold else None
    log = file_log(str(path), segment_bytes=segment_bytes, compression=compression)
    return OurLog(log, Durability.WRITTEN)


def in_sqlite(path: Path, durability: Durability) -> OurLog:
    """Open our log in a database."""
    return OurLog(sl.open(f"sqlite:{path}"), durability)
