"""A file log with every kind of content, and the required result of damage to it.

Right records or a typed error, never wrong or missing ones; and whatever a damage
does not touch stays readable.
"""

import os
import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice

import pyarrow as pa

from strandline.log import Log
from strandline.stores.files.frame import HEADER, frame_bytes
from strandline.stores.files.root import RESERVE
from strandline.stores.files.segment import FRAMES_AT
from strandline.values import CorruptError, Event, InvalidError, Record, ValueKind
from tests.log.files.crashes import PATH, TickingClock
from tests.logs import file_log
from tests.model.damage import Damage, contents_of, files, flip, sectors
from tests.model.disk import Disk, Tree

TYPED = (CorruptError, InvalidError)
SEGMENT_BYTES = 8 * 1024
BITS_PER_SEED = 1000
#: Mode, and whether the machine has been started again since.
WAYS = (("read", 0), ("write", 0), ("read", 1), ("write", 1))

Place = tuple[str, int]


@dataclass(frozen=True)
class Reference:
    """A store that is whole, and what it holds."""

    tree: Tree
    records: dict[Place, tuple[Record, ...]]
    cursors: Mapping[Place, int]
    directories: dict[str, str]
    """A part of the path of a topic's files → its name."""
    used: dict[str, int]
    """How much of each segment file is frames."""
    frames: dict[str, list[tuple[int, int, int, int]]]
    """Begin, end, first offset and number of records of each frame, by file."""
    ends: dict[Place, list[int]]
    """One past the last offset of each frame, rising."""

    def frame_end(self, place: Place, offset: int) -> int:
        """Return one past the last offset in the frame of this one."""
        ends = self.ends[place]
        return ends[bisect_right(ends, offset)] if offset < ends[-1] else offset + 1


@cache
def reference(seed: int = 0) -> Reference:
    """Return the store; another seed makes another log of the same shape."""
    disk = Disk()
    for opening, compression in enumerate(("zstd", "lz4", None)):
        with opened(disk, seed=seed + opening, compression=compression) as log:
            if opening == 0:
                make_topics(log)
            fill(log, opening)
            if opening == 1:
                log.seal("raw")
    with opened(disk, mode="read") as log:
        places = [
            (topic.name, partition)
            for topic in log.topics()
            for partition in range(len(log.describe_topic(topic).marks))
        ]
        records = {place: tuple(log.read(*place, log.marks(*place).low)) for place in places}
        cursors = {
            place: cursor
            for place in places
            if (cursor := log.cursor(place[0], "billing", place[1])) is not None
        }
        directories = {str(topic.id): topic.name for topic in log.topics()}
    tree = disk.freeze()
    frames = {
        path: list(frames_in(content))
        for path, content in contents_of(tree).items()
        if path.endswith(".segment")
    }
    used = {path: each[-1][1] if each else FRAMES_AT for path, each in frames.items()}
    # What it holds means nothing.
    used |= {path: 0 for path in contents_of(tree) if path.rpartition("/")[2] == RESERVE}
    ends = {
        place: sorted(
            base + count
            for path, each in frames.items()
            if directories[path.split("/")[3]] == place[0] and path.split("/")[4] == str(place[1])
            for _, _, base, count in each
        )
        for place in records
    }
    return Reference(tree, records, cursors, directories, used, frames, ends)


def opened(
    disk: Disk, *, seed: int = 99, mode: str = "write", compression: str | None = None
) -> Log:
    return file_log(
        PATH,
        io=disk,
        clock=TickingClock(seed=seed),
        mode=mode,
        segment_bytes=SEGMENT_BYTES,
        compression=compression,
    )


def make_topics(log: Log) -> None:
    # One partition for records alone, one for many at once: damage reaches one of them.
    log.create_topic("orders", partitions=2)
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    # As little as there can be behind a file of each kind.
    log.create_topic("few")
    log.create_topic("tiny", value_kind=ValueKind.BYTES)
    log.create_topic("batches", value_kind=ValueKind.BATCH)
    log.create_topic("trimmed")
    log.create_topic("empty")
    log.create_topic("dropped")


def fill(log: Log, opening: int) -> None:
    for number in range(20):
        log.append("orders", event(number), partition=0)
    for _ in range(2):
        many = [event(number) for number in range(66)]
        log.append_many("orders", many, partition=1, tenant="shop")
    for number in range(10):
        log.append("orders", event(number), partition=0, idempotency_key=f"{opening}-{number}")
        log.append(
            *("orders", event(number)), partition=0, producer="p", sequence=100 * opening + number
        )
    log.append("few", event(0), idempotency_key=f"{opening}")
    log.append("few", event(1), producer="p", sequence=opening)
    log.ack("few", "billing", 0, 1 + opening)
    for number in range(14):
        log.append("raw", bytes([number]) * (number * 31), key=f"k{number}")
        batch = pa.record_batch({"n": [number, 7], "text": ["a" * number, None]})
        log.append("batches", batch)
        log.append("trimmed", event(number))
    log.append_many("raw", [b"x" * 50] * 30)
    log.append_many("tiny", [b"x"] * 64)
    log.append_many("tiny", [b"x"] * 64, tenant="shop")
    log.trim("trimmed", 0, 5 + 10 * opening)
    for partition in range(2):
        log.ack("orders", "billing", partition, 12 + partition)
    if opening == 0:
        log.append("dropped", event(1))
        log.drop_topic("dropped")
    log.flush()


def event(number: int) -> Event:
    return Event("order", {"n": number, "text": "shore" * (number % 20 * 3)}, key=f"c{number}")


def frames_in(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield begin, end, first offset and count of each frame of a segment."""
    position = FRAMES_AT
    while (size := frame_bytes(content, position)) is not None:
        fields = HEADER.unpack_from(content, position)
        yield position, position + size, fields[6], fields[8]
        position += size


def check(
    whole: Reference, damage: Damage, *, mode: str = "read", boot: int = 0, spares: bool = False
) -> bool:
    """Open and read a damaged store; return whether the damage was reported.

    AssertionError if something wrong is seen, or missing without an error; with `spares`,
    also if more is unreadable than the damage explains.
    """
    disk = Disk(damage.tree, boot=boot)
    topic = topic_of(whole, damage.path)
    try:
        log = opened(disk, mode=mode)
    except TYPED:
        assert topic is None, f"{damage.title}: the whole log cannot be opened"
        return True
    with log:
        reports = [
            check_place(log, whole, damage, place, spares=spares)
            for place in places_of(whole, damage)
        ]
        return any(reports)


def places_of(whole: Reference, damage: Damage) -> list[Place]:
    """Return the partitions that a damage could reach."""
    topic = topic_of(whole, damage.path)
    inside = damage.path.split("/")[4:]
    return [
        (name, partition)
        for name, partition in whole.records
        if topic in (None, name)
        if len(inside) < 2 or not inside[0].isdigit() or inside[0] == str(partition)
    ]


def topic_of(whole: Reference, path: str) -> str | None:
    """Return the topic whose file this is; None if it is the log's."""
    return next((name for part, name in whole.directories.items() if part in path), None)


def check_place(log: Log, whole: Reference, damage: Damage, place: Place, *, spares: bool) -> bool:
    expected = whole.records[place]
    unreadable, low, high = read_around(log, whole, place, damage.title)
    if high is not None and expected:
        ends = (expected[0].offset, expected[-1].offset + 1)
        assert (low, high) == ends, f"{damage.title}: {place} is {low, high}, was {ends}"
    allowed = may_be_missing(whole, damage, place)
    if spares and allowed is not None:
        assert unreadable <= allowed, f"{damage.title}: {sorted(unreadable - allowed)} of {place}"
    is_cursor_reported = check_cursor(log, whole, damage, place)
    return bool(unreadable) or is_cursor_reported


def read_around(
    log: Log, whole: Reference, place: Place, title: str
) -> tuple[set[int], int | None, int | None]:
    """Read everything that can be; return the offsets that cannot, and the marks."""
    expected = {record.offset: record for record in whole.records[place]}
    try:
        marks = log.marks(*place)
    except TYPED:
        return set(expected), None, None
    unreadable: set[int] = set()
    start = int(marks.low)
    while start < marks.high:
        try:
            for record in log.read(*place, start):
                assert record == expected.get(record.offset), f"{title}: wrong at {record.offset}"
                assert record.offset == start, f"{title}: a gap before {record.offset}"
                start += 1
        except TYPED:
            # One frame is readable or not, whole.
            end = min(whole.frame_end(place, start), marks.high)
            unreadable.update(range(start, end))
            start = end
        else:
            assert start == marks.high, f"{title}: it ends at {start}"
    return unreadable, marks.low, marks.high


def may_be_missing(whole: Reference, damage: Damage, place: Place) -> set[int] | None:
    """Return the offsets that a damage may make unreadable; None for no limit."""
    everything = {int(record.offset) for record in whole.records[place]}
    if damage.path.endswith(".segment"):
        frames = whole.frames[damage.path]
        if damage.start < FRAMES_AT:
            hit = frames
        else:
            hit = [each for each in frames if each[0] < damage.end and damage.start < each[1]]
        return {offset for _, _, base, count in hit for offset in range(base, base + count)}
    if damage.path.endswith((".tail", "lock")):
        return set()
    return None if topic_of(whole, damage.path) is None else everything


def check_cursor(log: Log, whole: Reference, damage: Damage, place: Place) -> bool:
    expected = whole.cursors.get(place)
    try:
        cursor = log.cursor(place[0], "billing", place[1])
    except TYPED:
        return True
    if damage.title.endswith(".key missing"):
        # Nothing else in a log shows that a consumer was there.
        expected = cursor
    assert cursor == expected, f"{damage.title}: the cursor in {place} is {cursor}"
    return False


def used_bits(whole: Reference) -> dict[str, int]:
    """Return how many bits of each file are in use."""
    return {
        path: bits
        for path, content in contents_of(whole.tree).items()
        if (bits := 8 * whole.used.get(path, len(content)))
    }


def sampled_bits(whole: Reference, chance: random.Random, count: int) -> Iterator[tuple[str, int]]:
    """Yield paths and bits, all bits that are in use alike."""
    bits = used_bits(whole)
    for path in chance.choices(list(bits), list(bits.values()), k=count):
        yield path, chance.randrange(bits[path])


def check_some(whole: Reference, every: Iterable[Damage], stride: int) -> None:
    """Check every `stride`-th damage, each in another of the WAYS; which ones differs each time."""
    seed = int.from_bytes(os.urandom(4), "big")
    for number, each in enumerate(islice(every, seed % stride, None, stride), seed):
        mode, boot = WAYS[number % len(WAYS)]
        check(whole, each, mode=mode, boot=boot)


def run_files(seed: int) -> None:
    """Damage sectors and files in one of the WAYS."""
    whole, chance = reference(), random.Random(seed)
    mode, boot = WAYS[seed % len(WAYS)]
    other = reference(seed=50).tree
    for each in sectors(whole.tree, chance, used=whole.used):
        check(whole, each, mode=mode, boot=boot)
    for each in files(whole.tree, other, chance, used=whole.used):
        check(whole, each, mode=mode, boot=boot)


def seeds() -> int:
    """Return how many seeds come to every bit in use."""
    return -(-sum(used_bits(reference()).values()) // BITS_PER_SEED)


def run(seed: int) -> None:
    """Flip the next BITS_PER_SEED bits: consecutive seeds come to every bit in use."""
    whole = reference()
    every = [(path, bit) for path, count in used_bits(whole).items() for bit in range(count)]
    turn, block = divmod(seed, seeds())
    for path, bit in every[block * BITS_PER_SEED : (block + 1) * BITS_PER_SEED]:
        mode, boot = WAYS[(bit + turn) % len(WAYS)]
        check(whole, flip(whole.tree, path, bit), mode=mode, boot=boot)
