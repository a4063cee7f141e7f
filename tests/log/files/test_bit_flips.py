"""Damage to a file log gives the right records or a typed error, and affects nothing else."""

import contextlib
import os
import random
from collections.abc import Iterator
from itertools import islice

import pytest

from strandline.stores.files.frame import HEADER_BYTES, MAGIC, MAGIC_AT
from strandline.stores.files.segment import FRAMES_AT
from tests.log.files import damaged
from tests.log.files.damaged import WAYS, Reference, check, reference, used_bits
from tests.model import damage
from tests.model.damage import contents_of, flip
from tests.model.disk import Disk

#: Every bit is flipped in torture.
SAMPLED_BITS = 600
STRIDE = 61
KINDS = ("segment", "manifest", "tail", "key", "identities", "lock")


@pytest.fixture(scope="module")
def whole() -> Reference:
    return reference()


def small_files(whole: Reference) -> Iterator[str]:
    """Yield one file of each kind that is not a segment, of as small a topic as there is."""
    kinds = {"segment"}
    for path in sorted(used_bits(whole), key=lambda path: records_behind(whole, path)):
        kind = path.rpartition("/")[2].rpartition(".")[2]
        if kind not in kinds:
            kinds.add(kind)
            yield path


def records_behind(whole: Reference, path: str) -> int:
    """Return how many records damage to a file could reach."""
    nothing = damage.Damage("", path, 0, 0, whole.tree)
    return sum(len(whole.records[place]) or 1000 for place in damaged.places_of(whole, nothing))


def one_frame_of_each_kind(whole: Reference) -> Iterator[tuple[str, int, int]]:
    """Yield the place of a segment's header, and of the smallest frame of each kind."""
    smallest: dict[bytes, tuple[str, int, int]] = {}
    for path, frames in whole.frames.items():
        content = contents_of(whole.tree)[path]
        for start, end, _, _ in frames:
            # Kind and flags.
            kind = content[start + MAGIC_AT + len(MAGIC) :][:2]
            if kind not in smallest or end - start < smallest[kind][2] - smallest[kind][1]:
                smallest[kind] = path, start, end
    yield next(iter(whole.frames)), 0, FRAMES_AT
    yield from smallest.values()


@pytest.mark.slow
def test_the_store_has_something_of_everything(whole: Reference) -> None:
    contents = contents_of(whole.tree)
    segments = [path for path in contents if path.endswith(".segment")]

    assert sum(whole.used[path] for path in segments) > 64 * 1024
    assert len(segments) > 6
    assert len(list(one_frame_of_each_kind(whole))) >= 6
    assert len(list(small_files(whole))) >= 5
    assert whole.cursors


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "boot"), WAYS)
def test_the_undamaged_store_reads_well(whole: Reference, mode: str, boot: int) -> None:
    nothing = damage.Damage("nothing", "", 0, 0, whole.tree)

    assert not check(whole, nothing, mode=mode, boot=boot)


def bits_of_everything_once(whole: Reference) -> Iterator[tuple[str, int]]:
    """Yield every bit of one small file of each kind, and of one frame of each kind."""
    for path in small_files(whole):
        for bit in range(8 * len(contents_of(whole.tree)[path])):
            yield path, bit
    for path, start, end in one_frame_of_each_kind(whole):
        for bit in range(8 * start, 8 * end):
            yield path, bit


@pytest.mark.slow
def test_some_bits_of_one_of_each(whole: Reference) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    reported = 0
    bits = islice(bits_of_everything_once(whole), seed % STRIDE, None, STRIDE)
    for number, (path, bit) in enumerate(bits):
        mode, boot = WAYS[number % len(WAYS)]
        reported += check(whole, flip(whole.tree, path, bit), mode=mode, boot=boot)

    assert reported


@pytest.mark.slow
def test_bits_anywhere(whole: Reference) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    chance = random.Random(seed)
    reported = 0
    for path, bit in damaged.sampled_bits(whole, chance, SAMPLED_BITS):
        mode, boot = chance.choice(WAYS)
        reported += check(whole, flip(whole.tree, path, bit), mode=mode, boot=boot)

    assert reported > SAMPLED_BITS / 2


@pytest.mark.slow
def test_a_flipped_bit_costs_one_frame(whole: Reference) -> None:
    path, frames = next((path, each) for path, each in whole.frames.items() if len(each) > 5)
    for bit in range(8 * frames[1][0], 8 * frames[1][0] + 8 * HEADER_BYTES):
        check(whole, flip(whole.tree, path, bit), spares=True)


def test_damage_costs_no_other_segment_after_a_new_start(whole: Reference) -> None:
    directory = next(path.rpartition("/")[0] for path in whole.frames)
    *_, path = [path for path in whole.frames if path.startswith(directory)]

    check(whole, flip(whole.tree, path, 8 * 20), boot=1, spares=True)


@pytest.mark.slow
def test_sectors_zeroed_filled_with_junk_and_swapped(whole: Reference) -> None:
    damaged.check_some(whole, damage.sectors(whole.tree, random.Random(0), used=whole.used), 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "other"])
def test_files_missing_cut_doubled_and_of_another_log(whole: Reference, kind: str) -> None:
    other = reference(seed=50).tree
    every = damage.files(whole.tree, other, random.Random(0), used=whole.used)
    damaged.check_some(whole, (each for each in every if kind == kind_of(each)), 1)


def kind_of(each: damage.Damage) -> str:
    suffix = each.path.rpartition("/")[2].rpartition(".")[2]
    return suffix if suffix in KINDS else "other"


def test_a_missing_topic_file_does_not_cost_its_records(whole: Reference) -> None:
    path = next(path for path in contents_of(whole.tree) if path.endswith("/topic"))
    disk = Disk(damage.without(whole.tree, path))

    with contextlib.suppress(*damaged.TYPED):
        damaged.opened(disk).close()

    assert set(whole.frames) <= set(contents_of(disk.freeze()))


def test_reading_changes_no_byte(whole: Reference) -> None:
    disk = Disk(whole.tree, boot=1)

    with damaged.opened(disk, mode="read") as log:
        for place in whole.records:
            damaged.read_around(log, whole, place, "nothing")

    assert disk.journal == []
