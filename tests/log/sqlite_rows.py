"""A small SQLite log of which one row is missing, moved or changed.

Whatever becomes of a row: reads give the right records or a typed error, an append takes no
offset that a record has, a write that was stored is recognised or refused, and `verify`
notes what makes it be refused. `run` repeats a failure by the seed that it prints.
"""

import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strandline.log import Log
from strandline.values import CorruptError, Event, InvalidError, Record
from tests.logs import sqlite_log

TYPED = (CorruptError, InvalidError)
TOPICS = ("orders", "proved")


@dataclass
class Written:
    """A store, and what has to be found in it."""

    path: Path
    content: bytes = b""
    records: dict[str, list[Record]] = field(default_factory=dict)
    epochs: dict[str, list[Any]] = field(default_factory=dict)
    #: Topic, the terms of an append, what it brought, and the offset of its first record.
    originals: list[tuple[str, dict[str, Any], Event, int]] = field(default_factory=list)


@dataclass(frozen=True)
class RowDamage:
    """One statement that makes a row wrong."""

    title: str
    statement: str
    values: tuple[Any, ...]


def write(folder: Path, seed: int) -> Written:
    """Make a store with rows in every table, and two epochs."""
    chance = random.Random(seed)
    whole = Written(folder / "whole")
    first = folder / "first"
    with sqlite_log(str(first)) as log:
        log.create_topic("orders", partitions=2)
        log.create_topic("proved", proof=True)
        _fill(log, whole, chance)
    # Another file is another epoch.
    shutil.copy(first, whole.path)
    with sqlite_log(str(whole.path)) as log:
        _fill(log, whole, chance)
        for topic in TOPICS:
            whole.records[topic] = list(log.read(topic, 0, 0))
            whole.epochs[topic] = list(log.epochs(topic, 0))
    whole.content = whole.path.read_bytes()
    return whole


def _fill(log: Log, whole: Written, chance: random.Random) -> None:
    for topic in TOPICS:
        for number in range(chance.randrange(3, 6)):
            end = log.marks(topic, 0).high
            kinds: list[dict[str, Any]] = [
                {"idempotency_key": f"k{end}"},
                {"producer": f"p{number % 2}", "sequence": end},
                {},
            ]
            terms = kinds[number % 3]
            event = Event("order", {"n": int(end)}, key=f"c{number}")
            receipt = log.append(topic, event, partition=0, **terms)
            if terms:
                whole.originals.append((topic, terms, event, receipt.offset))
        log.ack(topic, "billing", 0, 1)


def damages(whole: Written, chance: random.Random, *, columns: int | None) -> Iterator[RowDamage]:
    """Yield each row of each table deleted, and some of its columns, or all, changed by a bit."""
    with closing(sqlite3.connect(whole.path)) as connection:
        tables = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'strandline%'"
            )
        ]
        for table in tables:
            about = connection.execute(f"PRAGMA table_info({table})").fetchall()
            names = [each[1] for each in about]
            keys = [each[1] for each in about if each[5]]
            where = " AND ".join(f"{name} = ?" for name in keys)
            rows = f"SELECT * FROM {table}"  # noqa: S608 - Our own names.
            for row in connection.execute(rows).fetchall():
                stored = dict(zip(names, row, strict=True))
                key = tuple(stored[name] for name in keys)
                delete = f"DELETE FROM {table} WHERE {where}"  # noqa: S608 - Our own names.
                yield RowDamage(f"{table} {key} deleted", delete, key)
                chosen = names if columns is None else chance.sample(names, columns)
                for name in chosen:
                    changed = _changed(stored[name], chance)
                    update = f"UPDATE OR IGNORE {table} SET {name} = ? WHERE {where}"  # noqa: S608
                    yield RowDamage(f"{table} {key} {name} changed", update, (changed, *key))


def _changed(value: object, chance: random.Random) -> object:
    if isinstance(value, int):
        return value ^ 1 << chance.choice((0, 1, 3, 7, 20, 38, 40))
    if isinstance(value, str):
        return value[:-1] + chr(ord(value[-1]) ^ 1) if value else "a"
    if isinstance(value, bytes):
        at = chance.randrange(len(value))
        return value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :]
    return 1


def check(whole: Written, damage: RowDamage) -> bool:
    """Read, verify, append and repeat; return whether anything was reported.

    AssertionError if something is wrong, lost or stored twice without an error.
    """
    path = whole.path
    for left in path.parent.glob(f"{path.name}-*"):
        left.unlink()
    # In its place: a copy would have to begin an epoch first.
    path.write_bytes(whole.content)
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute(damage.statement, damage.values)
        except sqlite3.Error:
            return False  # SQLite itself refuses it.
        connection.commit()
    title = damage.title
    is_reported = _check_reading(whole, path, title)
    is_sound, refused = _verified(path), _check_writing(whole, path, title)
    if refused:
        assert not is_sound, f"{title}: verify calls it sound"
    return is_reported or not is_sound or refused


def _verified(path: Path) -> bool:
    try:
        with sqlite_log(str(path), mode="read") as log:
            return all(report.is_sound for topic in TOPICS for report in log.verify(topic))
    except TYPED:
        return False


def _check_reading(whole: Written, path: Path, title: str) -> bool:
    is_reported = False
    try:
        log = sqlite_log(str(path), mode="read")
    except TYPED:
        return True
    with log:
        try:
            names = [each.name for each in log.topics()]
            # One that became a tenant's is reported to a reader that looks for it.
            assert names == sorted(TOPICS) or "tenant changed" in title, title
        except TYPED:
            is_reported = True
        for topic in TOPICS:
            is_reported |= _check_topic(log, whole, topic, title)
    return is_reported


def _check_topic(log: Log, whole: Written, topic: str, title: str) -> bool:
    is_reported = False
    expected = whole.records[topic]
    for start, end in [(0, None), *((each, each + 1) for each in range(len(expected)))]:
        try:
            found = list(log.read(topic, 0, start, end))
            # What was moved to the end is read as damage, where it is read.
            assert found == expected[start:end], f"{title}: read {start, end} of {topic}"
        except TYPED:
            is_reported = True
    try:
        assert list(log.epochs(topic, 0)) == whole.epochs[topic], title
    except TYPED:
        is_reported = True
    try:
        cursor = log.cursor(topic, "billing", 0)
        assert cursor == 1, f"{title}: the consumer begins again"
    except TYPED:
        is_reported = True
    return is_reported


def _check_writing(whole: Written, path: Path, title: str) -> bool:
    """Repeat and append; return whether a repeat was refused."""
    is_refused = False
    try:
        log = sqlite_log(str(path))
    except TYPED:
        return True
    with log:
        for topic, terms, event, offset in whole.originals:
            try:
                again = log.append(topic, event, partition=0, **terms)
            except TYPED:
                is_refused = True
            else:
                stored = (again.offset, again.is_repeat)
                assert stored == (offset, True), f"{title}: {terms} went to {stored}, not {offset}"
        for topic in TOPICS:
            end = len(whole.records[topic])
            try:
                offset = log.append(topic, Event("new", {}), partition=0).offset
                assert offset >= end, f"{title}: offset {offset} of {topic} is taken"
                (found,) = log.read(topic, 0, offset, offset + 1)
                assert found.value == Event("new", {}), title
            except TYPED:
                pass
    return is_refused


def run(seed: int) -> None:
    """Make a store by chance, and check each row of it deleted and each column changed."""
    with tempfile.TemporaryDirectory() as folder:
        whole = write(Path(folder), seed)
        try:
            for damage in list(damages(whole, random.Random(seed), columns=None)):
                check(whole, damage)
        except AssertionError as error:
            error.add_note(f"seed={seed}")
            raise
