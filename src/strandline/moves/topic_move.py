"""Copies one topic between two stores. See design 0099."""

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

from strandline.log import (
    AppendRequest,
    Damage,
    History,
    Kept,
    MovableStore,
    Outcome,
    PartitionState,
    Store,
    StoredTopic,
)
from strandline.log.copies import CopiedPartition
from strandline.log.cursors import ConsumerCursors
from strandline.log.erased import is_tombstone
from strandline.log.moved import NO_IDENTITIES, identities_before
from strandline.moves.requests import WriteIdentities, requests_of
from strandline.subscriptions.queue_store import copied_queue
from strandline.values import (
    CorruptError,
    Durability,
    InvalidError,
    Offset,
    Partition,
    ProofFinding,
    StrandlineError,
)

#: How many appends run at once: a store combines them.
_WINDOW: Final = 256
_WRITTEN: Final = Durability.WRITTEN


class TopicMove:
    """Copies the records that a copy of a topic does not have yet."""

    def __init__(
        self, source: Store[Any], target: Store[Any], topic: StoredTopic, copied: StoredTopic
    ) -> None:
        self._source = source
        self._target = target
        self._from = topic
        self._to = copied

    def run(self, progress: Callable[[int], None]) -> list[CopiedPartition]:
        """Copy each partition up to its current end; `progress` gets numbers of records."""
        numbers = range(self._from.settings.partitions)
        return [self._partition(number, progress) for number in numbers]

    def _partition(self, number: int, progress: Callable[[int], None]) -> CopiedPartition:
        state = self._source.state(self._from, number)
        end = state.marks.high
        # Read after the end, so that they cover every record before it.
        known = _movable(self._source).identities(self._from, number)
        start = self._start(number, state, known)
        history = self._source.history(self._from, number, start, end)
        requests = requests_of(
            kept_of(history, self._source.url), WriteIdentities(known), self._kind
        )
        self._append(number, requests, progress)
        low = state.marks.low
        if low > self._target.marks(self._to, number).low:
            self._target.trim(self._to, number, low)
        return CopiedPartition(self._from.topic, Partition(number), Offset(low), Offset(end))

    @property
    def _kind(self) -> Any:
        return self._from.settings.value_kind

    def _start(self, number: int, state: PartitionState, known: Any) -> int:
        """Return the offset at which the copy continues; it begins at the oldest record."""
        marks = self._target.marks(self._to, number)
        oldest = state.oldest
        if marks.high == 0 and oldest > 0:
            self._begin(number, oldest, known)
            return oldest
        fields = {"topic": self._from.topic.name, "partition": number}
        if marks.high < oldest:
            raise InvalidError(
                "the source was trimmed beyond what was copied, copy to a new log",
                **{**fields, "copied": marks.high, "oldest": oldest},
            )
        if marks.high > state.marks.high or not self._is_same_before(number, marks.high, oldest):
            raise InvalidError(
                "the target has records that the source does not have, so it was written to",
                **{**fields, "copied": marks.high, "high": state.marks.high},
            )
        return marks.high

    def _begin(self, number: int, oldest: int, known: Any) -> None:
        anchor = None
        if self._from.settings.proof:
            anchor = self._source.history(self._from, number, oldest, oldest).anchor
        before = identities_before(known, oldest) if known != NO_IDENTITIES else known
        _movable(self._target).begin_at(self._to, number, oldest, anchor, before)

    def _is_same_before(self, number: int, end: int, oldest: int) -> bool:
        """Whether the last copied record equals the source's record."""
        if end <= max(oldest, self._target.state(self._to, number).oldest):
            return True
        pair = [
            store.history(topic, number, end - 1, end)
            for store, topic in ((self._source, self._from), (self._target, self._to))
        ]
        entries = [kept_of(pair[0], self._source.url), kept_of(pair[1], self._target.url)]
        kept = itertools.zip_longest(*entries)
        return all(is_copied(pair, one, other, self._from.topic.name) for one, other in kept)

    def _append(
        self, number: int, requests: Iterator[AppendRequest], progress: Callable[[int], None]
    ) -> None:
        waiting: deque[tuple[Outcome, int]] = deque()
        level = min(_WRITTEN, self._target.capabilities.durability_max)

        def finish() -> None:
            outcome, count = waiting.popleft()
            outcome.wait(level)
            progress(count)

        try:
            for request in requests:
                outcome = self._target.append(
                    self._to, number, request, _WRITTEN, None, may_wait=False
                )
                waiting.append((outcome, len(request.drafts)))
                if len(waiting) >= _WINDOW:
                    finish()
            while waiting:
                finish()
        except BaseException:
            # Later appends failed for the same reason, or are stored.
            for outcome, _ in waiting:
                with contextlib.suppress(StrandlineError):
                    outcome.wait(level)
            raise

    def keys(self, cursors: ConsumerCursors) -> None:
        """Copy the consumers with their cursors, and the values of the keyed area."""
        source, target = self._source.keys(self._from), self._target.keys(self._to)
        for key, value in source.items():
            adopted = cursors.adopted(self._to, key, copied_queue(key, value))
            if target.get(key) != adopted:
                self._target.put_key(self._to, key, adopted, target.get(key))
        for key in target.keys() - source.keys():
            self._target.remove_key(self._to, key)


def is_copied(
    histories: Sequence[History], one: Kept | None, other: Kept | None, topic: str
) -> bool:
    """Whether a record and its copy are equal; InvalidError if only the source is erased."""
    if one is None or other is None or one.offset != other.offset:
        return False
    is_erased = is_tombstone(one.body)
    if is_erased and not is_tombstone(other.body):
        raise InvalidError(
            "records of the source were erased after they were copied: delete this copy, and copy"
            " to a new log",
            topic=topic,
            partition=histories[0].partition,
            offset=one.offset,
        )
    # With a proof, a tombstone has the digest of the record.
    return is_erased == is_tombstone(other.body) and (
        histories[0].chain.digest_kept(one) == histories[1].chain.digest_kept(other)
    )


def kept_of(history: History, url: str) -> Iterator[Kept]:
    """Yield the records of a history; CorruptError for damage."""
    for piece in history.pieces:
        if isinstance(piece, Damage | ProofFinding):
            raise CorruptError(
                "a damaged log is not copied, see verify",
                file=url,
                position=piece.offset,
                partition=history.partition,
                reason=piece.reason,
            )
        yield from piece.entries


def _movable(store: Store[Any]) -> MovableStore[Any]:
    return cast("MovableStore[Any]", store)
