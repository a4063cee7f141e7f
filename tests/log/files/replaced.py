"""A small file log of which one file is missing, cut, zeroed, an older copy, or another log's.

Whatever becomes of a file: reads give the right records or a typed error, an append takes
no offset that a record has, a write that was stored is recognised or refused, and `verify`
notes what makes it be refused. `run` repeats a failure by the seed that it prints.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from strandline.log import Log
from strandline.stores.files.frame import HEADER, LAG_UNKNOWN
from strandline.values import CorruptError, Durability, Event, InvalidError, Record
from tests.log.files.crashes import PATH, START_US, TickingClock
from tests.log.files.damaged import frames_in
from tests.logs import file_log
from tests.model.damage import Damage, contents_of, flip, replaced, without
from tests.model.disk import Disk, Tree

TYPED = (CorruptError, InvalidError)
TOPIC = "orders"
SEGMENT_BYTES = 2048
#: Boot of the machine, and whether the directory was copied: then its lock is another one.
WAYS = ((0, False), (0, True), (1, False), (1, True))
STEPS = ("some", "some", "many", "plain", "seal", "trim", "trim_within", "reopen")
SMALL = (".tail", ".manifest", ".identities", ".identities-copy", ".key", "topic", "strandline")


@dataclass
class Written:
    """A store, what it was before each step, and what has to be found in it."""

    steps: list[str]
    tree: Tree = field(default_factory=Tree)
    older: list[Tree] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    low: int = 0
    #: The terms of an append, what it brought, and the offset of its first record.
    originals: list[tuple[dict[str, Any], list[Event], int]] = field(default_factory=list)


class _Writing:
    def __init__(self, seed: int, *, clock_seed: int) -> None:
        chance = random.Random(seed)
        self.written = Written(["some", *chance.choices(STEPS, k=7), "some"])
        self._clock_seed = clock_seed
        self._number = 0
        self._disk = Disk()

    def run(self) -> Written:
        log = opened(self._disk, seed=self._clock_seed)
        log.create_topic(TOPIC)
        for number, step in enumerate(self.written.steps):
            if step == "reopen":
                log.close()
                log = opened(self._disk, seed=self._clock_seed + number + 1)
            else:
                getattr(self, f"_{step}")(log)
            self.written.older.append(self._disk.freeze())
        log.close()
        written = self.written
        written.tree = self._disk.freeze()
        with opened(Disk(written.tree), mode="read") as reading:
            written.low = reading.marks(TOPIC, 0).low
            written.records = list(reading.read(TOPIC, 0, written.low))
        return written

    def _event(self) -> Event:
        self._number += 1
        return Event("order", {"n": self._number, "text": "shore" * (self._number % 7)})

    def _append(self, log: Log, terms: dict[str, Any], count: int = 1) -> None:
        events = [self._event() for _ in range(count)]
        receipts = log.append_many(TOPIC, events, durability=Durability.DURABLE, **terms)
        self.written.originals.append((terms, events, receipts[0].offset))

    def _some(self, log: Log) -> None:
        for _ in range(3):
            self._append(log, {"idempotency_key": f"k{self._number}"})
            self._append(log, {"producer": "p", "sequence": self._number})
        log.append(TOPIC, self._event(), durability=Durability.DURABLE)
        log.ack(TOPIC, "billing", 0, log.marks(TOPIC, 0).high)

    def _many(self, log: Log) -> None:
        self._append(log, {"idempotency_key": f"many{self._number}"}, count=70)

    def _plain(self, log: Log) -> None:
        for _ in range(5):
            log.append(TOPIC, self._event())

    def _seal(self, log: Log) -> None:
        log.seal(TOPIC)

    def _trim(self, log: Log) -> None:
        marks = log.marks(TOPIC, 0)
        log.trim(TOPIC, 0, (marks.low + marks.high) // 2)

    def _trim_within(self, log: Log) -> None:
        log.trim(TOPIC, 0, min(log.marks(TOPIC, 0).low + 1, log.marks(TOPIC, 0).high))


def write(seed: int, clock_seed: int = 0) -> Written:
    """Return a new store; another clock makes another log of the same content."""
    return _Writing(seed, clock_seed=clock_seed).run()


written = cache(write)


def opened(disk: Disk, *, seed: int = 99, mode: str = "write") -> Log:
    clock = TickingClock(now_us=START_US + disk.age * 1000, seed=seed)
    return file_log(PATH, io=disk, clock=clock, mode=mode, segment_bytes=SEGMENT_BYTES)


def damages(whole: Written, other: Tree, chance: random.Random) -> Iterator[Damage]:
    """Yield the store with each small file missing, cut, zeroed, flipped, older or another's."""
    foreign = contents_of(other)
    for path, content in contents_of(whole.tree).items():
        if not path.endswith(SMALL) or not content:
            continue
        length = len(content)
        yield Damage(f"{path} missing", path, 0, length, without(whole.tree, path))
        suffix = path.rpartition(".")[2]
        ways = {
            "empty": b"",
            "cut": content[: chance.randrange(1, length)],
            "zeroed": bytes(length),
            **{f"another's {twin}": foreign[twin] for twin in foreign if twin.endswith(suffix)},
        }
        for number, tree in enumerate(whole.older):
            before = contents_of(tree).get(path)
            if before is not None and before != content:
                ways[f"older {number}"] = before
        for title, now in ways.items():
            yield Damage(f"{path}: {title}", path, 0, length, replaced(whole.tree, path, now))
        yield flip(whole.tree, path, chance.randrange(8 * length))


def pairs(whole: Written) -> Iterator[Damage]:
    """Yield the store with two files wrong at once: both identities, tail and manifest."""
    contents = contents_of(whole.tree)
    for path, content in contents.items():
        twin = f"{path}-copy"
        if twin in contents:
            ways = {"zeroed": (bytes(len(content)),) * 2}
            for number, tree in enumerate(whole.older):
                older = contents_of(tree)
                if path in older and twin in older:
                    ways[f"older {number}"] = older[path], older[twin]
            yield Damage(f"{path} missing", path, 0, 0, without(without(whole.tree, path), twin))
        elif path.endswith(".tail"):
            twin = path.replace(".tail", ".manifest")
            trees = [contents_of(tree) for tree in whole.older]
            ways = {
                f"older {number}, with its manifest": (tree[path], tree[twin])
                for number, tree in enumerate(trees)
                if path in tree and twin in tree and tree[path] != content
            }
        else:
            continue
        for title, (first, second) in ways.items():
            now = replaced(replaced(whole.tree, path, first), twin, second)
            yield Damage(f"{path}: {title}", path, 0, len(content), now)


def copied(tree: Tree) -> Tree:
    """Return the store with another lock, as any copy has it."""
    for path in contents_of(tree):
        if path.endswith("/0/lock"):
            tree = without(tree, path)
    return tree


def check(whole: Written, damage: Damage, *, boot: int, is_copy: bool) -> bool:
    """Read, verify, append and repeat; return whether anything was reported.

    AssertionError if something is wrong, lost or stored twice without an error.
    """
    tree = copied(damage.tree) if is_copy else damage.tree
    title = f"{damage.title}, boot {boot}, copy {is_copy}, steps {whole.steps}"
    is_read = _check_reading(whole, tree, boot, title)
    refused = [
        _check_writing(whole, Disk(tree, boot=boot), title, repeats_first=each)
        for each in (False, True)
    ]
    is_sound = _verified(tree, boot)
    if any(each == "identities" for each in refused):
        assert not is_sound, f"{title}: verify calls it sound"
    return not is_read or not is_sound or any(refused)


def _verified(tree: Tree, boot: int) -> bool:
    try:
        with opened(Disk(tree, boot=boot), mode="read") as log:
            return all(report.is_sound for report in log.verify(TOPIC))
    except TYPED:
        return False


def _check_reading(whole: Written, tree: Tree, boot: int, title: str) -> bool:
    try:
        with opened(Disk(tree, boot=boot), mode="read") as log:
            high = _check_records(log, whole, title, ())
    except TYPED:
        return False
    end = whole.records[-1].offset + 1
    if high < end:
        # Nothing that could be known says that the tail is an older copy.
        assert ".tail: older" in title, f"{title}: it ends at {high} of {end}"
        assert high >= _durable_mark(tree), f"{title}: it ends at {high} of {end}"
    return True


def _durable_mark(tree: Tree) -> int:
    """Return the highest durable mark that any frame has."""
    marks = [0]
    for path, content in contents_of(tree).items():
        if path.endswith(".segment"):
            for start, _, base, _ in frames_in(content):
                lag = HEADER.unpack_from(content, start)[9]
                marks.append(0 if lag == LAG_UNKNOWN else base - lag)
    return max(marks)


def _check_records(log: Log, whole: Written, title: str, added: tuple[int, ...]) -> int:
    """Read all of it; return where it ends."""
    expected = {record.offset: record for record in whole.records}
    marks = log.marks(TOPIC, 0)
    found = list(log.read(TOPIC, 0, marks.low))
    assert [record.offset for record in found] == list(range(marks.low, marks.high)), title
    for record in found:
        if record.offset not in added and record.offset >= whole.low:
            assert record == expected.get(record.offset), f"{title}: wrong at {record.offset}"
    assert marks.low <= whole.low or not expected, title
    return marks.high


def _check_writing(whole: Written, disk: Disk, title: str, *, repeats_first: bool) -> str:
    """Append and repeat; return what was refused, if anything."""
    added: list[int] = []
    refused = ""
    try:
        log = opened(disk)
    except TYPED:
        return "all"
    with log:
        for step in ("repeats", "append") if repeats_first else ("append", "repeats"):
            if step == "append":
                try:
                    added.append(log.append(TOPIC, Event("new", {}), timeout_s=1.0).offset)
                except TYPED:
                    refused = "all"
            elif _check_repeats(log, whole, title):
                refused = refused or "identities"
    end = whole.records[-1].offset + 1
    assert all(offset >= end for offset in added), f"{title}: offset {added} is taken, end {end}"
    try:
        with opened(Disk(disk.freeze(), boot=disk.boot), mode="read") as again:
            high = _check_records(again, whole, title, tuple(added))
            assert not added or high > added[0], f"{title}: the append is lost"
    except TYPED:
        pass
    return refused


def _check_repeats(log: Log, whole: Written, title: str) -> bool:
    """Make each append that can be recognised again; return whether any was refused."""
    is_refused = False
    for terms, events, offset in whole.originals:
        try:
            receipts = log.append_many(TOPIC, events, **terms)
        except TYPED:
            is_refused = True
        else:
            slots = (receipts[0].offset, receipts[0].is_repeat)
            assert slots == (offset, True), f"{title}: {terms} went to {slots}, not {offset}"
    return is_refused


def run(seed: int) -> None:
    """Make a store by chance, and check every damage to it in every way."""
    whole, other = written(seed), written(seed, clock_seed=1000).tree
    chance = random.Random(seed)
    try:
        for damage in (*damages(whole, other, chance), *pairs(whole)):
            for boot, is_copy in WAYS:
                check(whole, damage, boot=boot, is_copy=is_copy)
    except AssertionError as error:
        error.add_note(f"seed={seed}")
        raise
