"""One file of a partition is missing, damaged or an older copy: nothing is lost or stored twice."""

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from strandline.log import Log
from strandline.log.identities import Identities
from strandline.stores.files import adoption as adopting
from strandline.stores.files import identity_window, partition, sealing
from strandline.stores.files import succession as succeeding
from strandline.stores.files.place import Place
from strandline.testing import FakeClock
from strandline.values import IDENTITY_AGE_S, CorruptError, Durability, Event, Record
from tests.log.files import replaced
from tests.log.files.crashes import START_US
from tests.log.files.replaced import WAYS, check
from tests.logs import file_log

TOPIC = "orders"


def event(number: int) -> Event:
    return Event("order", {"n": number})


def append(log: Log, numbers: range, durability: Durability = Durability.DURABLE) -> None:
    for number in numbers:
        log.append(TOPIC, event(number), durability=durability)


def append_with_keys(log: Log, numbers: range) -> None:
    for number in numbers:
        log.append(TOPIC, event(number), idempotency_key=f"k{number}")


def numbers_in(log: Log) -> list[int]:
    low = log.marks(TOPIC, 0).low
    return [number_of(record) for record in log.read(TOPIC, 0, low)]


def number_of(record: Record) -> int:
    assert isinstance(record.value, Event)
    number = record.value.payload["n"]
    assert isinstance(number, int)
    return number


def file_of(path: Path, suffix: str) -> Path:
    (found,) = path.glob(f"topics/*/0/*{suffix}")
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with file_log(str(path)) as log:
        log.create_topic(TOPIC)
    return path


# --- older tails and manifests ---


@pytest.mark.parametrize("is_copy", [False, True])
@pytest.mark.parametrize("more", [0, 1])
def test_a_tail_that_is_older_than_its_manifest_is_not_used(
    path: Path, tmp_path: Path, is_copy: bool, more: int
) -> None:
    with file_log(str(path)) as log:
        append(log, range(10))
    tail = file_of(path, ".tail")
    older = tail.read_bytes()
    with file_log(str(path)) as log:
        append(log, range(10, 16))
        log.seal(TOPIC)
        append(log, range(16, 16 + more))
    tail.write_bytes(older)
    if is_copy:
        path = Path(shutil.copytree(path, tmp_path / "copy"))

    with file_log(str(path), mode="read") as log:
        assert numbers_in(log) == list(range(16 + more))
        assert log.marks(TOPIC, 0).high == 16 + more
    with file_log(str(path)) as log:
        assert log.append(TOPIC, event(99), durability=Durability.DURABLE).offset == 16 + more
        assert numbers_in(log) == [*range(16 + more), 99]
        assert all(report.is_sound for report in log.verify(TOPIC))


def test_a_reader_finds_what_frames_beyond_an_older_tail_show_as_durable(path: Path) -> None:
    with file_log(str(path)) as log:
        append(log, range(10))
        older = file_of(path, ".tail").read_bytes()
        append(log, range(10, 20))
    file_of(path, ".tail").write_bytes(older)

    with file_log(str(path), mode="read") as log:
        assert numbers_in(log) == list(range(20))


@pytest.mark.parametrize("is_copy", [False, True])
def test_an_append_takes_over_every_frame_beyond_an_older_tail(
    path: Path, tmp_path: Path, is_copy: bool
) -> None:
    with file_log(str(path)) as log:
        append(log, range(10), Durability.WRITTEN)
        older = file_of(path, ".tail").read_bytes()
        append(log, range(10, 20), Durability.WRITTEN)
    file_of(path, ".tail").write_bytes(older)
    if is_copy:
        path = Path(shutil.copytree(path, tmp_path / "copy"))

    with file_log(str(path)) as log:
        assert log.append(TOPIC, event(20)).offset == 20
        assert numbers_in(log) == list(range(21))


def test_an_older_tail_put_back_under_a_live_log_does_not_move_it_back(path: Path) -> None:
    with file_log(str(path)) as log, file_log(str(path), mode="read") as reading:
        append(log, range(10), Durability.WRITTEN)
        older = file_of(path, ".tail").read_bytes()
        append(log, range(10, 20), Durability.WRITTEN)
        assert numbers_in(reading) == list(range(20))
        with file_of(path, ".tail").open("r+b") as tail:
            tail.write(older)

        assert numbers_in(reading) == list(range(20))
        assert log.append(TOPIC, event(20)).offset == 20
        assert numbers_in(reading) == list(range(21))


def test_frames_that_are_damaged_beyond_an_older_tail_are_not_written_over(path: Path) -> None:
    with file_log(str(path)) as log:
        append(log, range(10))
        older = file_of(path, ".tail").read_bytes()
        append(log, range(10, 20))
    file_of(path, ".tail").write_bytes(older)
    (segment,) = path.glob("topics/*/0/segments/*")
    content = bytearray(segment.read_bytes())
    content[content.index(b'{"n":12}') + 1] ^= 1
    segment.write_bytes(content)

    with file_log(str(path)) as log:
        assert log.append(TOPIC, event(20)).offset == 20
        assert [number_of(each) for each in log.read(TOPIC, 0, 13)] == [*range(13, 21)]
        with pytest.raises(CorruptError):
            list(log.read(TOPIC, 0, 12))


def test_a_manifest_and_tail_older_than_a_segment_are_reported_and_nothing_is_overwritten(
    path: Path,
) -> None:
    with file_log(str(path), segment_bytes=4096) as log:
        append(log, range(10))
        older = {each: each.read_bytes() for each in path.glob("topics/*/0/0*")}
        append(log, range(10, 200))
    for each, content in older.items():
        each.write_bytes(content)
    segments = {each: each.read_bytes() for each in path.glob("topics/*/0/segments/*")}

    with file_log(str(path), mode="read") as log, pytest.raises(CorruptError, match="older than"):
        numbers_in(log)
    with file_log(str(path)) as log, pytest.raises(CorruptError, match="older than"):
        log.append(TOPIC, event(99))
    assert segments == {each: each.read_bytes() for each in path.glob("topics/*/0/segments/*")}


@pytest.mark.parametrize("kept", [200, 260, 270])
def test_a_tail_that_is_cut_or_damaged_in_its_fence_blocks_no_other(path: Path, kept: int) -> None:
    with file_log(str(path)) as log:
        append(log, range(3))
    tail = file_of(path, ".tail")
    tail.write_bytes(tail.read_bytes()[:kept])

    with file_log(str(path)) as log:
        assert log.append(TOPIC, event(3)).offset == 3
        assert numbers_in(log) == list(range(4))


# --- identities ---


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def emptied(file: Path) -> None:
    file.write_bytes(b"")


WRONGS = [flipped, zeroed, emptied, Path.unlink]


@pytest.mark.parametrize("wrong", WRONGS)
@pytest.mark.parametrize("is_trimmed", [False, True])
def test_one_copy_of_the_identities_is_enough_and_the_other_is_repaired(
    path: Path, wrong: Callable[[Path], None], is_trimmed: bool
) -> None:
    with file_log(str(path)) as log:
        append_with_keys(log, range(10))
        log.seal(TOPIC)
        if is_trimmed:
            log.trim(TOPIC, 0, 10)
    wrong(file_of(path, ".identities"))

    with file_log(str(path)) as log:
        assert not log.verify(TOPIC)[0].is_sound
        again = log.append(TOPIC, event(3), idempotency_key="k3")
        assert (again.offset, again.is_repeat) == (3, True)
        assert log.verify(TOPIC)[0].is_sound


@pytest.mark.parametrize("wrong", WRONGS)
def test_identities_are_read_from_sealed_frames_where_both_copies_are_wrong(
    path: Path, wrong: Callable[[Path], None]
) -> None:
    with file_log(str(path)) as log:
        append_with_keys(log, range(10))
        log.append_many(TOPIC, [event(each) for each in range(3)], producer="p", sequence=7)
        log.append_many(TOPIC, [event(each) for each in range(70)], idempotency_key="many")
        log.seal(TOPIC)
    wrong(file_of(path, ".identities"))
    wrong(file_of(path, ".identities-copy"))

    with file_log(str(path)) as log:
        assert not log.verify(TOPIC)[0].is_sound
        for number in range(10):
            assert log.append(TOPIC, event(number), idempotency_key=f"k{number}").offset == number
        assert log.append(TOPIC, event(1), producer="p", sequence=8).offset == 11
        many = log.append_many(TOPIC, [event(each) for each in range(70)], idempotency_key="many")
        assert [each.offset for each in many] == list(range(13, 83))
        assert log.verify(TOPIC)[0].is_sound


@pytest.mark.parametrize("wrong", WRONGS)
def test_lost_identities_are_an_error_where_they_are_needed(
    path: Path, wrong: Callable[[Path], None]
) -> None:
    with file_log(str(path), segment_bytes=4096) as log:
        append_with_keys(log, range(10))
        log.seal(TOPIC)
        log.trim(TOPIC, 0, 10)
    wrong(file_of(path, ".identities"))
    wrong(file_of(path, ".identities-copy"))

    with file_log(str(path), segment_bytes=4096) as log:
        for terms in ({"idempotency_key": "k3"}, {"producer": "p", "sequence": 1}):
            with pytest.raises(CorruptError, match="identities"):
                log.append(TOPIC, event(3), **terms)
        append(log, range(10, 110), Durability.WRITTEN)
        log.seal(TOPIC)
        log.trim(TOPIC, 0, 20)
        assert numbers_in(log) == list(range(20, 110))
        with pytest.raises(CorruptError, match="identities"):
            log.append(TOPIC, event(3), idempotency_key="k3")
        report = log.verify(TOPIC)[0]
        assert any("identities" in finding.reason for finding in report.findings)


def test_lost_identities_are_needed_no_longer_than_they_would_be_kept(path: Path) -> None:
    clock = FakeClock(now_us=START_US)
    with file_log(str(path), clock=clock) as log:
        append_with_keys(log, range(10))
        log.seal(TOPIC)
        log.trim(TOPIC, 0, 10)
    file_of(path, ".identities").unlink()
    file_of(path, ".identities-copy").unlink()

    with file_log(str(path), clock=clock) as log:
        log.append(TOPIC, event(10))
        clock.advance(IDENTITY_AGE_S + 1)
        log.append(TOPIC, event(11))
        assert log.append(TOPIC, event(3), idempotency_key="k3").offset == 12
        assert log.append(TOPIC, event(3), idempotency_key="k3").offset == 12


def test_a_write_is_recognised_after_its_record_was_trimmed(path: Path) -> None:
    with file_log(str(path)) as log:
        append_with_keys(log, range(10))
        log.trim(TOPIC, 0, 8)

    with file_log(str(path)) as log:
        assert log.append(TOPIC, event(3), idempotency_key="k3").offset == 3


# --- every file, every way ---

SEED = 3


def some(seed: int, step: int) -> Iterator[tuple[int, Any]]:
    whole, other = replaced.written(seed), replaced.written(seed, clock_seed=1000).tree
    every = [*replaced.damages(whole, other, random.Random(seed)), *replaced.pairs(whole)]
    return enumerate(every[::step])


@pytest.mark.slow
def test_some_replaced_files_of_a_store() -> None:
    reported = 0
    for number, damage in some(SEED, 25):
        boot, is_copy = WAYS[number % len(WAYS)]
        reported += check(replaced.written(SEED), damage, boot=boot, is_copy=is_copy)

    assert reported


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [SEED, 10])
def test_every_replaced_file_of_a_store(seed: int) -> None:
    for number, damage in some(seed, 1):
        boot, is_copy = WAYS[number % len(WAYS)]
        check(replaced.written(seed), damage, boot=boot, is_copy=is_copy)


def believed(_: object, __: object) -> bool:
    return True


def never(*_: object) -> bool:
    return False


def no_appends(_: object) -> list[object]:
    return []


def nothing(*_: object) -> None:
    return None


def none_kept(*_: object) -> tuple[Identities, int]:
    return Identities(), 0


BUGS: dict[str, Callable[[], list[AbstractContextManager[Any]]]] = {
    "an end that contradicts the manifest is believed": lambda: [
        mock.patch.object(module, "agrees", believed)
        for module in (partition, adopting, succeeding)
    ],
    "frames beyond a tail tell a reader nothing": lambda: [
        mock.patch.object(partition, "is_behind", never)
    ],
    "an older manifest is believed": lambda: [mock.patch.object(Place, "check_newest", nothing)],
    "damaged identities are taken for none": lambda: [
        mock.patch.object(identity_window, "_newest", none_kept)
    ],
    "sealing drops what appends are recognised by": lambda: [
        mock.patch.object(sealing, "appends_in", no_appends)
    ],
}


@pytest.mark.heavy
@pytest.mark.parametrize("bug", BUGS)
def test_the_sweep_catches_a_planted_bug(bug: str) -> None:
    with ExitStack() as planted:
        for patch in BUGS[bug]():
            planted.enter_context(patch)

        assert any(is_caught(seed) for seed in (SEED, 1))


def is_caught(seed: int) -> bool:
    whole = replaced.write(seed)
    every = [*replaced.pairs(whole), *replaced.damages(whole, whole.tree, random.Random(seed))]
    for damage in every:
        if not damage.path.endswith((".tail", ".identities")):
            continue
        for boot, is_copy in WAYS[:2]:
            try:
                check(whole, damage, boot=boot, is_copy=is_copy)
            except AssertionError:
                return True
    return False
