"""The de-duplication keys that were handled, and when: stored in the log, across restarts."""

import bisect
import hashlib
import heapq
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from strandline.log import Log
from strandline.values import Event, InvalidError, Topic
from strandline.values.internal_topics import HANDLED_PREFIX

KEYS_MAX: Final = 1_000_000
"""A trigger keeps the keys of at most this many handled records, the latest ones."""

KEY_BYTES: Final = 16
#: Larger whole numbers have no form as an integer that all of JSON can hold.
_WHOLE_MAX: Final = 2.0**63


class HandledKey(NamedTuple):
    """The digest of a key, and the append time of the handled record."""

    key: bytes
    timestamp_us: int


def digest_of(key: object) -> bytes:
    """Return the digest of a key: equal if and only if the JSON values are equal.

    1, 1.0 and 1e0 are equal, and have the digest of 1.
    """
    try:
        text = msgspec.json.encode(key, order="sorted")
        if type(key) is not str and type(key) is not int:
            text = msgspec.json.encode(_plain(msgspec.json.decode(text)), order="sorted")
    except (TypeError, ValueError) as error:
        raise InvalidError(
            "a de-duplication key is text, a number or other JSON", type=type(key).__name__
        ) from error
    return hashlib.blake2b(text, digest_size=KEY_BYTES).digest()


def _plain(value: object) -> object:
    """Return a JSON value with its whole numbers as integers."""
    if isinstance(value, float) and abs(value) < _WHOLE_MAX and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


class HandledKeys:
    """One trigger's keys, in a separate internal topic.

    A key is stored before its record is acked, so after a crash in between the record is not
    handled twice; the key of a record that was not handled is never stored. The times are
    append times, so it does not matter when and in which order records are handled:
    partitions are read concurrently, and an old record may be handled after a new one. For
    that reason each append time of a key is kept, not only the latest.

    `is_handled` and `add` may be called by any thread.
    """

    def __init__(self, log: Log, topic: Topic, consumer: str, window_us: int) -> None:
        self._log = log
        self._window_us = window_us
        digest = hashlib.sha256(f"{topic.tenant or ''}/{consumer}".encode()).hexdigest()[:32]
        self._notes = log.create_topic(
            f"{HANDLED_PREFIX}{topic.id}.{digest}", tenant=topic.tenant, internal=True
        )
        self._consumer = consumer
        self._lock = threading.Lock()
        self._times: dict[bytes, list[int]] = {}
        """Key → append times of its handled records, ascending."""
        self._earliest: list[tuple[int, bytes]] = []
        """All append times with their keys, as a heap."""
        self._stored: deque[tuple[int, int]] = deque()
        """The offset of each stored note, and the latest time in it."""
        self._own: set[int] = set()
        """Offsets of this process's own notes that `catch_up` has not reached yet."""
        self._end = 0
        self.catch_up()

    def __len__(self) -> int:
        return len(self._earliest)

    def is_handled(self, key: bytes, timestamp_us: int) -> bool:
        """Whether a record with this key was handled, appended within the window of that time."""
        with self._lock:
            times = self._times.get(key, ())
            after = bisect.bisect(times, timestamp_us)
            nearest = times[max(0, after - 1) : after + 1]
        return any(abs(timestamp_us - each) < self._window_us for each in nearest)

    def add(self, handled: HandledKey) -> None:
        """Register a handled key in memory; `store` stores it."""
        with self._lock:
            bisect.insort(self._times.setdefault(handled.key, []), handled.timestamp_us)
            heapq.heappush(self._earliest, (handled.timestamp_us, handled.key))
            if len(self._earliest) > KEYS_MAX:
                self._drop_earliest()

    def store(self, handled: Sequence[HandledKey]) -> None:
        """Store the keys, with the log's highest durability. May block."""
        keys = [[each.key.hex(), each.timestamp_us] for each in handled]
        receipt = self._log.append(
            self._notes,
            Event("handled", {"consumer": self._consumer, "keys": keys}),
            durability=self._log.durability_max,
        )
        self._own.add(receipt.offset)
        self._stored.append((receipt.offset, max(each.timestamp_us for each in handled)))

    def trim(self, horizon_us: int) -> None:
        """Trim keys that no record appended from `horizon_us` on can repeat."""
        before = None
        while self._stored and self._stored[0][1] <= horizon_us - self._window_us:
            before = self._stored.popleft()[0] + 1
        if before is not None:
            self._log.trim(self._notes, 0, before)

    def expire(self, horizon_us: int) -> None:
        """Remove from memory the keys that `trim` removes from the log."""
        with self._lock:
            while self._earliest and self._earliest[0][0] <= horizon_us - self._window_us:
                self._drop_earliest()

    def _drop_earliest(self) -> None:
        _, key = heapq.heappop(self._earliest)
        times = self._times[key]
        del times[0]
        if not times:
            del self._times[key]

    def catch_up(self) -> None:
        """Read the keys that other processes have stored since the last call."""
        start = max(self._end, self._log.marks(self._notes, 0).low)
        for note in self._log.read(self._notes, 0, start):
            self._end = note.offset + 1
            if note.offset in self._own:
                self._own.remove(note.offset)
                continue
            latest_us = 0
            for key, timestamp_us in note.payload["keys"]:
                self.add(HandledKey(bytes.fromhex(key), timestamp_us))
                latest_us = max(latest_us, timestamp_us)
            self._stored.append((note.offset, latest_us))
