"""`copy`: a whole log, or some topics, to a log of any kind."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final

from strandline.backups import LogCopy, LogLocation
from strandline.log import Log, Store, StoredTopic, parts_of
from strandline.log.copies import CopiedPartition
from strandline.log.cursors import ConsumerCursors
from strandline.log.sources import check_has_no_holes
from strandline.moves.given_ids import GivenIds
from strandline.moves.topic_move import TopicMove, is_copied, kept_of
from strandline.opening import absolute_url, is_shared, open_log, place_url
from strandline.values import CorruptError, InvalidError, Mode
from strandline.values.arguments import check_items
from strandline.values.names import check_text

#: The maximum number of passes while processes write, until few records are left.
_PASSES: Final = 5
_FEW: Final = 1000


def copy(
    source: LogLocation,
    target: LogLocation,
    *,
    topics: Iterable[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> LogCopy:
    """Copy a log to a log of any kind, while processes write to it, and compare the two.

    The copy has the identity of its source, the same offsets, timestamps, keys, tenants and
    proofs, recognises the same repeats, and has the same consumers. Records that it has
    already are not copied again: call this until few records are left, then once more when
    no process writes to the source, and use the target from then on. `topics` lists the
    topics to copy, by default all; `progress` is called with numbers of records.

    InvalidError if the target is the source, or another log, or was written to; or if the
    source was trimmed meanwhile beyond the copied records, or records of it were erased
    after they were copied. CorruptError if the source is damaged, or the two differ.
    """
    found, place = place_url(source), _located(target)
    chosen = None if topics is None else frozenset(_names(topics))
    ids = GivenIds()
    with open_log(found, mode=Mode.READ) as old:
        _check_source(parts_of(old).store, chosen)
        if is_shared(found) and absolute_url(found) == absolute_url(place):
            raise InvalidError(
                "a log is not copied onto itself, name another place",
                target=parts_of(old).store.url,
            )
        with ids.next_id(old.id):
            new = open_log(place, clock=ids)
        with new:
            move = _LogMove(old, new, ids, chosen, progress or (lambda _: None))
            return LogCopy(found, place, tuple(move.run()))


def _names(topics: Iterable[str]) -> list[str]:
    return [check_text(each, "topic") for each in check_items("topics", topics)]


def _located(target: LogLocation) -> str:
    place = place_url(target, like="file:")
    if not is_shared(place):
        raise InvalidError("a copy is a log that others can open, not memory:", url=place)
    return place


def _check_source(store: Store[StoredTopic], chosen: frozenset[str] | None) -> None:
    """Raise InvalidError if the log cannot be copied, before a target is created."""
    _check_moves(store)
    if chosen is None:
        return
    named = [topic for topic in store.topics() if topic.topic.name in chosen]
    if unknown := sorted(chosen - {topic.topic.name for topic in named}):
        raise InvalidError("there are no such topics", topics=unknown)
    for topic in named:
        check_has_no_holes(topic, "a copy")


def _check_moves(store: Store[StoredTopic]) -> None:
    if not store.capabilities.moves:
        raise InvalidError("this kind of log cannot be copied", url=store.url)


class _LogMove:
    def __init__(
        self,
        old: Log,
        new: Log,
        ids: GivenIds,
        chosen: frozenset[str] | None,
        progress: Callable[[int], None],
    ) -> None:
        self._old: Store[Any] = parts_of(old).store
        self._new: Store[Any] = parts_of(new).store
        self._target = new
        self._ids = ids
        self._chosen = chosen
        self._progress = progress
        self._cursors = ConsumerCursors(self._new, ids)

    def run(self) -> list[CopiedPartition]:
        """Copy, pass after pass, and compare."""
        self._check()
        copied: list[CopiedPartition] = []
        for _ in range(_PASSES):
            before = sum(each.end for each in copied)
            copied = [each for topic in self._topics() for each in self._move(topic)]
            if sum(each.end for each in copied) - before < _FEW:
                break
        self._target.flush()
        for topic in self._topics():
            made = self._new.find_topic_id(topic.topic.id)
            if made is not None:
                TopicMove(self._old, self._new, topic, made).keys(self._cursors)
        for each in copied:
            self._compare(each)
        return copied

    def _check(self) -> None:
        _check_moves(self._new)
        if self._new.id != self._old.id:
            raise InvalidError(
                "the target is a log of its own, copy to a place where there is none",
                target=self._new.url,
            )

    def _topics(self) -> list[StoredTopic]:
        chosen = self._chosen
        own = (t for t in self._old.topics() if t.settings.source is None)
        each = (t for t in own if chosen is None or t.topic.name in chosen)
        return sorted(each, key=lambda topic: (topic.topic.tenant or "", topic.topic.name))

    def _move(self, topic: StoredTopic) -> list[CopiedPartition]:
        return TopicMove(self._old, self._new, topic, self._made(topic)).run(self._progress)

    def _made(self, topic: StoredTopic) -> StoredTopic:
        """Return the copy of a topic, with its current settings."""
        named = topic.topic
        found: StoredTopic | None = self._new.find_topic(named.tenant, named.name, fresh=True)
        if found is None:
            with self._ids.next_id(named.id, topic.created_at_us):
                found = self._new.create_topic(named.name, named.tenant, topic.settings)
        if found.topic.id != named.id:
            raise InvalidError(
                "the target has another topic of this name, drop that first", topic=named.name
            )
        if found.settings != topic.settings:
            self._new.change_settings(found, lambda _: topic.settings)
            # Including added partitions.
            found = self._new.find_topic(named.tenant, named.name, fresh=True) or found
        return found

    def _compare(self, copied: CopiedPartition) -> None:
        """Raise CorruptError unless both have the same records, and the same proof."""
        number, end = copied.partition, copied.end
        pair = [store.find_topic_id(copied.topic.id) for store in (self._old, self._new)]
        if pair[0] is None or pair[1] is None:
            raise InvalidError("a topic was dropped while it was copied", topic=copied.topic.name)
        low = max(
            store.state(topic, number).oldest
            for store, topic in zip((self._old, self._new), pair, strict=True)
        )
        histories = [
            store.history(topic, number, low, end)
            for store, topic in zip((self._old, self._new), pair, strict=True)
        ]
        entries = [kept_of(histories[0], self._old.url), kept_of(histories[1], self._new.url)]
        for one, other in itertools.zip_longest(*entries):
            if not is_copied(histories, one, other, copied.topic.name):
                at = low if one is None else one.offset
                raise CorruptError(
                    "the copy differs from its source, copy to a new log",
                    file=self._new.url,
                    position=at,
                    topic=copied.topic.name,
                    partition=number,
                )
        self._compare_proofs(copied, pair)

    def _compare_proofs(self, copied: CopiedPartition, pair: list[Any]) -> None:
        if not pair[0].settings.proof:
            return
        anchors = [
            store.history(topic, copied.partition, copied.end, copied.end).anchor
            for store, topic in zip((self._old, self._new), pair, strict=True)
        ]
        if anchors[0] != anchors[1]:
            raise CorruptError(
                "the proof of the copy differs from its source's, verify the two",
                file=self._new.url,
                position=copied.end,
                topic=copied.topic.name,
                partition=copied.partition,
            )
