"""Small values by subject in one stream, replaced by compare-and-set."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from strandline.stores.jetstream.connection import NatsConnection, NatsTries, answer_of
from strandline.stores.jetstream.errors import (
    BATCH_INCOMPLETE,
    WRONG_LAST_SEQUENCE,
    ApiRefusedError,
)
from strandline.stores.jetstream.streams import LogStream, StoredMessage
from strandline.stores.lost_answer import LostError, NotSentError
from strandline.values import CorruptError, UnavailableError, UnknownError

#: Each message begins with an id unique to one write.
_NAME_BYTES: Final = 16
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"

Message = tuple[str, bytes, Mapping[str, str] | None]


class SubjectValue(NamedTuple):
    """A value, and the sequence that the next change must expect."""

    sequence: int
    value: bytes


class KeyedStream:
    """The stream of keyed values of a log."""

    def __init__(self, connection: NatsConnection, name: str) -> None:
        self._connection = connection
        self._stream = LogStream(connection, name)

    async def get(self, subject: str) -> SubjectValue | None:
        """Return the value; None if there is none."""
        found = await self._stream.get(last_by_subj=subject)
        return None if found is None else _value_of(found)

    async def subjects(self, pattern: str) -> list[str]:
        """Return the subjects with a value, in no order."""
        found: list[str] = []
        while True:
            answer = await self._stream.info(subjects_filter=pattern, offset=len(found))
            page = list(answer["state"].get("subjects") or ())
            found += page
            if not page or len(found) >= int(answer.get("total", len(found))):
                return found

    async def changed(self, pattern: str, start: int, most: int) -> dict[str, SubjectValue] | None:
        """Return the values changed from a sequence on, by subject; None if there are too many."""
        found: dict[str, SubjectValue] = {}
        for _ in range(most):
            message = await self._stream.get(seq=start, next_by_subj=pattern)
            if message is None:
                return found
            found[message.subject] = _value_of(message)
            start = message.sequence + 1
        return None

    async def remove(self, pattern: str, before: int | None = None) -> int:
        """Remove values, optionally only those before a sequence; return how many there were."""
        limit = {} if before is None else {"seq": before}
        return await self._stream.purge(filter=pattern, **limit)

    async def put(
        self, subject: str, value: bytes, expected: int, *, ttl_s: int | None = None
    ) -> int | None:
        """Replace the value with this sequence (0: no value); return the new one, None on conflict.

        UnknownError if the answer was lost and the outcome cannot be determined.
        """
        more = {} if ttl_s is None else {"Nats-TTL": f"{ttl_s}s"}
        return await self.put_all(subject, [(subject, value)], expected, more)

    async def put_all(
        self,
        fenced: str,
        values: Sequence[tuple[str, bytes]],
        expected: int,
        more: Mapping[str, str] | None = None,
    ) -> int | None:
        """Replace several values or none; the first is `fenced`, checked as in `put`."""
        name = self._connection.clock.random_bytes(_NAME_BYTES)
        headers = {_EXPECTED: str(expected), **(more or {})}
        tries = self._connection.tries()
        was_lost = False
        while True:
            messages: list[Message] = [(subject, name + value, None) for subject, value in values]
            messages[0] = (*messages[0][:2], headers)
            try:
                answer = answer_of(
                    await self._connection.request_all(in_batch(self._connection, messages))
                )
                return int(answer["seq"]) - len(values) + 1
            except NotSentError as error:
                await self._rest(tries, error, was_lost=was_lost)
            except LostError as error:
                was_lost = True
                await self._rest(tries, error, was_lost=True)
            except ApiRefusedError as error:
                if error.code in WRONG_LAST_SEQUENCE:
                    return await self._stored_before(fenced, name) if was_lost else None
                if not error.is_passing and error.code not in BATCH_INCOMPLETE:
                    raise
                await self._rest(tries, error, was_lost=was_lost)

    async def _stored_before(self, subject: str, name: bytes) -> int:
        found = await self._stream.get(last_by_subj=subject)
        if found is not None and found.data[:_NAME_BYTES] == name:
            return found.sequence
        raise UnknownError(LostError("the answer was lost, and another change came after it"))

    async def _rest(self, tries: NatsTries, reason: Exception, *, was_lost: bool) -> None:
        try:
            await tries.rest(reason)
        except UnavailableError as error:
            if was_lost:
                raise UnknownError(error) from error
            raise


def _value_of(message: StoredMessage) -> SubjectValue:
    if len(message.data) < _NAME_BYTES:
        raise CorruptError(
            "a value of the log cannot be read", file=message.subject, position=message.sequence
        )
    return SubjectValue(message.sequence, message.data[_NAME_BYTES:])


def in_batch(connection: NatsConnection, messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages with headers that make the server store all of them or none."""
    if len(messages) == 1:
        return messages
    batch = connection.clock.random_bytes(_NAME_BYTES).hex()
    marked: list[Message] = []
    for number, (subject, data, headers) in enumerate(messages, 1):
        own = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number), **(headers or {})}
        if number == len(messages):
            own["Nats-Batch-Commit"] = "1"
        marked.append((subject, data, own))
    return marked
