"""Keys with a dead letter that is neither handled nor discarded yet. See design 0110."""

import threading
from itertools import islice
from typing import Final, Literal

from strandline.log import Log, is_erased
from strandline.subscriptions.redriving import (
    dead_letter_topic,
    found_redrive_topic,
    is_note,
    letter_of,
    letter_offset_of,
)
from strandline.values import InvalidError, Record, Topic

OnDeadLetter = Literal["continue", "block-key"]
"""Whether later records with a dead letter's key are delivered, or wait for it."""

_CHOICES: Final = ("continue", "block-key")
#: How many open dead letters each look checks for erasure.
_ERASED_LOOKS: Final = 16

Key = tuple[int, str]
"""A partition, and a key of its records."""


def is_blocking(on_dead_letter: object) -> bool:
    """Return whether keys wait for their dead letters; InvalidError for another choice."""
    text = str.__str__(on_dead_letter) if isinstance(on_dead_letter, str) else None
    if text not in _CHOICES:
        raise InvalidError(
            'on_dead_letter is "continue", or "block-key" to make later records of the key wait',
            on_dead_letter=on_dead_letter,
        )
    return text == "block-key"


class BlockedKeys:
    """Which keys of a consumer are blocked, according to the log. Thread-safe."""

    def __init__(self, log: Log, topic: Topic, consumer: str, tenant: str | None) -> None:
        self._log = log
        self._topic = topic
        self._consumer = consumer
        self._tenant = tenant
        self._whose = None if tenant == topic.tenant else tenant
        self._lock = threading.Lock()
        self._letters_at = 0
        self._redriven_at: dict[int, int] = {}
        self._open: dict[int, tuple[Key, int]] = {}
        """By the dead letter's offset: its key, and its record's offset."""
        self._by_key: dict[Key, dict[int, int]] = {}
        self._carriers: dict[int, tuple[int, int]] = {}
        """By dead letter: its redriven record, until that is settled."""
        self._closed: set[int] = set()

    def is_blocked(self, record: Record) -> bool:
        """Whether an earlier record of its key has an open dead letter, as of the last look."""
        if record.key is None:
            return False
        return self.first_of(record.partition).get(record.key, record.offset) < record.offset

    def first_of(self, partition: int) -> dict[str, int]:
        """Return the blocked keys of a partition, each with the offset of its first dead letter."""
        with self._lock:
            return {
                key: min(letters.values())
                for (number, key), letters in self._by_key.items()
                if number == partition
            }

    def look(self) -> None:
        """Read what was dead-lettered, redriven and discarded since. May have to wait."""
        with self._lock:
            letters = dead_letter_topic(self._log, self._topic)
            if letters is None:
                return
            redriven = found_redrive_topic(self._log, self._topic)
            # Before the letters: a record that failed again has a new letter by then.
            settled = [] if redriven is None else self._settled(redriven)
            self._close_erased(letters)
            self._read_letters(letters)
            if redriven is not None:
                self._read_redriven(redriven)
            for letter in settled:
                self._close(letter)

    def _settled(self, redriven: Topic) -> list[int]:
        cursors: dict[int, int] = {}
        for partition, _ in self._carriers.values():
            if partition not in cursors:
                found = self._log.cursor(redriven, self._consumer, partition, tenant=self._tenant)
                cursors[partition] = found or 0
        return [n for n, (partition, at) in self._carriers.items() if at < cursors[partition]]

    def _close_erased(self, letters: Topic) -> None:
        """Unblock the keys of letters that were erased since; checks a few in each call."""
        low = self._log.marks(letters, 0).low
        for offset in tuple(islice(self._open, _ERASED_LOOKS)):
            if offset >= low and is_erased(*self._log.read(letters, 0, offset, offset + 1)):
                self._close(offset)
            else:
                self._open[offset] = self._open.pop(offset)

    def _read_letters(self, letters: Topic) -> None:
        marks = self._log.marks(letters, 0)
        start, self._letters_at = max(self._letters_at, marks.low), marks.high
        for record in self._log.read(letters, 0, start, marks.high):
            if is_erased(record):
                continue
            letter = letter_of(record)
            is_ours = (letter.consumer, letter.consumer_tenant) == (self._consumer, self._whose)
            if is_ours and letter.key is not None and letter.offset not in self._closed:
                key = letter.partition, letter.key
                self._open[letter.offset] = key, letter.record_offset
                self._by_key.setdefault(key, {})[letter.offset] = letter.record_offset

    def _read_redriven(self, redriven: Topic) -> None:
        for partition in range(self._log.describe_topic(redriven).settings.partitions):
            marks = self._log.marks(redriven, partition)
            start = max(self._redriven_at.get(partition, 0), marks.low)
            self._redriven_at[partition] = marks.high
            for record in self._log.read(redriven, partition, start, marks.high):
                if is_erased(record):
                    continue
                letter = letter_offset_of(record)
                if is_note(record):
                    self._close(letter)
                else:
                    self._carriers[letter] = partition, record.offset

    def _close(self, letter: int) -> None:
        self._closed.add(letter)
        self._carriers.pop(letter, None)
        key, _ = self._open.pop(letter, (None, 0))
        if key is not None:
            del self._by_key[key][letter]
            if not self._by_key[key]:
                del self._by_key[key]
