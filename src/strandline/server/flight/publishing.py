"""Appends with `do_put`: one batch at a time, so that a stream may have any length."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import flight

from strandline.log import AppendTerms, Log, Receipt
from strandline.server.appending import append_values
from strandline.server.bodies import values_in
from strandline.server.caller import Caller
from strandline.server.flight.calls import FlightCalls
from strandline.server.flight.tickets import PutCommand
from strandline.server.settings import ServerSettings
from strandline.values import InvalidError, StrandlineError, ValueKind
from strandline.values.batches import check_content, check_structure

_RANGES_MAX: Final = 4096


class PutRange(msgspec.Struct):
    """The position of records of a put: the offsets [start, end) of a partition."""

    partition: int
    start: int
    end: int
    is_repeat: bool


class PutAnswer(msgspec.Struct):
    """The outcome of a batch, or of all of them."""

    batches: int
    records: int
    ranges: list[PutRange]
    is_whole: bool = True
    """Whether all ranges are listed; there is a maximum."""


class SentBatches:
    """Reads the batches that a client sends: each is checked before any of it is used."""

    def __init__(
        self, reader: Any, calls: FlightCalls, settings: ServerSettings, cut: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._calls = calls
        self._settings = settings
        self._cut = cut

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        bytes_max = self._settings.body_bytes_max
        while True:
            try:
                with self._calls.within(self._settings.body_timeout_s, self._cut):
                    batch = self._reader.read_chunk().data
            except StopIteration:
                return
            except (pa.ArrowException, OSError, flight.FlightError) as error:
                raise InvalidError("these batches cannot be read", reason=str(error)) from None
            if batch is None or not batch.num_rows:
                continue
            check_structure(batch)
            if batch.nbytes > bytes_max:
                raise InvalidError(
                    "this batch is too large, send smaller ones",
                    bytes=batch.nbytes,
                    bytes_max=bytes_max,
                )
            check_content(batch)
            yield batch


class TopicPut:
    """Appends the batches of one put to a topic."""

    def __init__(self, log: Log, caller: Caller, command: PutCommand) -> None:
        self._log = log
        self._command = command
        self._topic = caller.find(log, command.topic)
        self._kind = log.describe_topic(self._topic).settings.value_kind
        self._records = 0
        if (command.sequence is None) != (command.producer is None):
            raise InvalidError("a producer has a sequence, pass both or none")

    def answers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[PutAnswer]:
        """Append each batch, and yield its outcome; a batch that fails is not stored."""
        for number, batch in enumerate(batches):
            try:
                yield self._append(number, batch)
            except StrandlineError as error:
                if not number:
                    raise
                raise _partly(error, number, self._records) from error

    def _append(self, number: int, batch: pa.RecordBatch) -> PutAnswer:
        given = values_in([batch], self._kind, self._command.key)
        terms = self._terms(number)
        if self._kind is ValueKind.BATCH:
            receipts = append_values(self._log, self._topic, self._kind, given, terms)
        else:
            receipts = self._log.append_many(self._topic, given.values, keys=given.keys, **terms)
        found = list(receipts)
        self._records += len(found)
        return PutAnswer(1, len(found), _ranges(found))

    def _terms(self, number: int) -> AppendTerms:
        asked = self._command
        given: dict[str, Any] = {
            "partition": asked.partition,
            "durability": asked.durability,
            "timeout_s": asked.timeout_s,
            "deliver_at": asked.deliver_at,
            "producer": asked.producer,
        }
        if asked.sequence is not None:
            given["sequence"] = asked.sequence + self._records
        if asked.idempotency_key is not None:
            # If the stream is repeated, its batches have the same identities.
            key = asked.idempotency_key
            given["idempotency_key"] = f"{key}.{number}" if number else key
        terms: AppendTerms = {name: each for name, each in given.items() if each is not None}  # type: ignore[assignment] # By name.
        return terms


def together(answers: Iterable[PutAnswer]) -> PutAnswer:
    """Return one answer for all batches."""
    whole = PutAnswer(0, 0, [])
    for each in answers:
        whole.batches += each.batches
        whole.records += each.records
        whole.ranges = _merged([*whole.ranges, *each.ranges])
        if len(whole.ranges) > _RANGES_MAX:
            del whole.ranges[_RANGES_MAX:]
            whole.is_whole = False
    return whole


def _ranges(receipts: Iterable[Receipt]) -> list[PutRange]:
    by_place: dict[tuple[int, bool], list[int]] = {}
    for each in receipts:
        by_place.setdefault((each.partition, each.is_repeat), []).append(each.offset)
    return [
        PutRange(partition, start, end, is_repeat)
        for (partition, is_repeat), offsets in by_place.items()
        for start, end in _runs(offsets)
    ]


def _runs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    start = end = offsets[0]
    for offset in offsets:
        if offset != end:
            yield start, end
            start = offset
        end = offset + 1
    yield start, end


def _merged(ranges: list[PutRange]) -> list[PutRange]:
    last: dict[tuple[int, bool], PutRange] = {}
    found: list[PutRange] = []
    for each in ranges:
        before = last.get((each.partition, each.is_repeat))
        if before is not None and before.end == each.start:
            before.end = each.end
        else:
            found.append(each)
            last[each.partition, each.is_repeat] = each
    return found


def _partly(error: StrandlineError, batches: int, records: int) -> StrandlineError:
    """Return the error with how much is stored, so that a client knows where it was."""
    note = f"{error} (the {batches} batches before it are stored, records={records})"
    error.args = (note, *error.args[1:])
    return error
