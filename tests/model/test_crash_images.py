"""The crash images find what is wrong with a store, and nothing else."""

import errno
import random
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from strandline.io import Io, replace_file
from tests.model.crash_images import CrashState, Image, contents, crash_points
from tests.model.disk import ContentChange, Disk, Resize, Write
from tests.model.toy_store import BROKEN, ToyStore

VALUES = [b"first", b"x" * 200, b"third" * 10, b"y" * 200, b"z" * 180, b"last"]


def worked(kind: type[ToyStore]) -> Disk:
    disk = Disk()
    store = kind(disk)
    for number, value in enumerate(VALUES):
        disk.note(("offered", value))
        store.append(value)
        disk.note(("kept", value))
        if number == 3:
            store.compact()
    return disk


def broken_images(kind: type[ToyStore], *, limit: int = 60) -> Iterator[str]:
    """Yield what is wrong, image by image."""
    chance = random.Random(1)
    for point in crash_points(worked(kind)):
        facts = [fact for fact in point.facts if isinstance(fact, tuple)]
        kept = [value for what, value in facts if what == "kept"]
        offered = [value for what, value in facts if what == "offered"]
        for image in [point.state.after_kill(), *point.state.images(limit, chance)]:
            problem = reopened(kind, image, kept, offered)
            if problem:
                yield f"after {point.entries} entries: {problem}"


def reopened(
    kind: type[ToyStore], image: Image, kept: list[bytes], offered: list[bytes]
) -> str | None:
    disk = image.disk()
    try:
        found = kind(disk).values
        again = kind(disk).values
    except (OSError, ValueError) as error:
        return repr(error)
    if found[: len(kept)] != kept or found != offered[: len(found)]:
        return f"{len(kept)} kept, {len(found)} found"
    return "another opening finds something else" if again != found else None


def test_no_crash_breaks_a_correct_store() -> None:
    assert list(broken_images(ToyStore)) == []


@pytest.mark.parametrize("kind", BROKEN)
def test_a_crash_shows_what_is_wrong_with_a_store(kind: type[ToyStore]) -> None:
    assert list(islice(broken_images(kind), 1)), kind.__doc__


def test_no_crash_of_a_recovery_breaks_a_correct_store() -> None:
    chance = random.Random(2)
    for point in crash_points(worked(ToyStore)):
        kept = [fact[1] for fact in point.facts if isinstance(fact, tuple) and fact[0] == "kept"]
        for image in point.state.images(3, chance):
            disk = image.disk()
            ToyStore(disk)

            for second in crash_points(disk):
                for again in second.state.images(8, chance):
                    found = ToyStore(again.disk()).values
                    assert found[: len(kept)] == kept


def images_of(disk: Disk, limit: int = 1000) -> list[Image]:
    *_, point = crash_points(disk)
    return list(point.state.images(limit, random.Random(0)))


def contents_of(disk: Disk, path: str) -> set[bytes | None]:
    return {dict(image.key).get(path) for image in images_of(disk)}


def written(disk: Io, path: str, *parts: bytes) -> int:
    fd = disk.open(path, "create")
    end = disk.size(fd)
    for part in parts:
        disk.pwrite(fd, part, end)
        end += len(part)
    return fd


def test_unsynced_writes_may_be_there_or_not_each_for_itself() -> None:
    disk = Disk()
    fd = written(disk, "/f", b"aa")
    disk.sync(fd)
    disk.sync_directory("/")
    disk.pwrite(fd, b"bb", 2)
    disk.pwrite(fd, b"cc", 4)

    found = contents_of(disk, "/f")

    whole = {b"aa", b"aabb", b"aabbcc", b"aa\0\0cc"}
    torn = {b"aabbc", b"aa\0\0c"}
    only_length = {b"aa\0\0", b"aa\0\0\0\0", b"aabb\0\0"}
    assert found >= whole | torn | only_length
    assert all(content is not None and content.startswith(b"aa") for content in found)


def test_a_synced_file_may_have_lost_its_name() -> None:
    disk = Disk()
    fd = written(disk, "/f", b"content")
    disk.sync(fd)

    assert contents_of(disk, "/f") == {None, b"content"}


def test_a_file_with_a_durable_name_may_be_empty() -> None:
    disk = Disk()
    written(disk, "/f", b"content")
    disk.sync_directory("/")

    found = contents_of(disk, "/f")

    assert {b"", b"content", bytes(7), b"c"} <= found
    assert None not in found


def test_a_replace_is_there_or_not_and_never_half() -> None:
    disk = Disk()
    replace_file(disk, "/f", b"old", unique="1")
    fd = written(disk, "/f.tmp", b"new")
    disk.sync(fd)
    disk.replace("/f.tmp", "/f")

    assert contents_of(disk, "/f") == {b"old", b"new"}

    disk.sync_directory("/")

    assert contents_of(disk, "/f") == {b"new"}


def test_a_name_in_a_directory_that_is_lost_is_lost_too() -> None:
    disk = Disk()
    disk.mkdir("/d")
    disk.sync(written(disk, "/d/f", b"content"))
    disk.sync_directory("/d")

    assert contents_of(disk, "/d/f") == {None, b"content"}

    disk.sync_directory("/")

    assert contents_of(disk, "/d/f") == {b"content"}


def test_an_unlink_may_come_back() -> None:
    disk = Disk()
    disk.sync(written(disk, "/f", b"content"))
    disk.sync_directory("/")
    disk.unlink("/f")

    assert contents_of(disk, "/f") == {None, b"content"}


def test_a_large_write_is_torn_at_sectors() -> None:
    old, new = b"o" * 1536, b"n" * 1536

    found, is_all = contents(old, [Write(1, 0, new)], 100, random.Random(0))

    assert is_all
    assert {old, new, new[:512] + old[512:], old[:1024] + new[1024:]} <= set(found)


def test_a_truncation_may_be_lost_with_what_followed_kept() -> None:
    pending: list[ContentChange] = [Resize(1, 2, grow_only=False), Write(1, 2, b"XY")]

    found, _ = contents(b"abcdef", pending, 100, random.Random(0))

    assert {b"abcdef", b"ab", b"abXY", b"abXYef"} <= set(found)


def test_after_a_kill_everything_is_there_and_locks_are_free() -> None:
    disk = Disk()
    fd = written(disk, "/f", b"content")
    assert disk.try_lock(fd)
    *_, point = crash_points(disk)

    survivor = point.state.after_kill().disk()

    again = survivor.open("/f", "write")
    assert survivor.pread(again, 100, 0) == b"content"
    assert survivor.try_lock(again)
    assert survivor.boot_id() == disk.boot_id()
    assert all(image.disk().boot_id() != disk.boot_id() for image in images_of(disk))


def test_a_kill_within_a_write_leaves_a_part_of_it() -> None:
    disk = Disk()
    large = b"second" * 2000
    written(disk, "/f", b"first", large)
    *_, point = crash_points(disk)
    chance = random.Random(0)

    found = {
        dict(image.key)["/f"]
        for _ in range(100)
        if (image := point.state.after_kill_within(chance)) is not None
    }

    assert found == {(b"first" + large)[:end] for end in (4096, 8192)}
    assert dict(point.state.after_kill().key)["/f"] == b"first" + large


def test_an_image_is_independent() -> None:
    disk = Disk()
    written(disk, "/f", b"content")
    *_, point = crash_points(disk)
    image = point.state.after_kill()

    one = image.disk()
    one.pwrite(one.open("/f", "write"), b"CON", 0)

    assert image.disk().freeze() == image.tree
    assert disk.pread(disk.open("/f", "read"), 100, 0) == b"content"


def test_a_seed_repeats_its_images() -> None:
    def keys() -> list[object]:
        state = CrashState(disk)
        for entry in disk.journal:
            state.apply(entry)
        return [image.key for image in state.images(50, random.Random(9))]

    disk = Disk()
    for number in range(6):
        written(disk, f"/{number}", b"a" * 700, b"b" * 700)

    assert keys() == keys()
    assert len(set(keys())) > 40


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda disk: disk.open("/none", "read"), errno.ENOENT),
        (lambda disk: disk.open("/f", "create_new"), errno.EEXIST),
        (lambda disk: disk.open("/d", "write"), errno.EISDIR),
        (lambda disk: disk.mkdir("/d"), errno.EEXIST),
        (lambda disk: disk.mkdir("/none/d"), errno.ENOENT),
        (lambda disk: disk.list("/f"), errno.ENOTDIR),
        (lambda disk: disk.unlink("/none"), errno.ENOENT),
        (lambda disk: disk.replace("/none", "/f"), errno.ENOENT),
        (lambda disk: disk.sync(3), errno.EBADF),
        (lambda disk: disk.pwrite(disk.open("/f", "read"), b"", 0), errno.EBADF),
    ],
)
def test_it_refuses_what_a_file_system_refuses(call: Callable[[Disk], object], code: int) -> None:
    disk = Disk()
    disk.close(written(disk, "/f", b""))
    disk.mkdir("/d")

    with pytest.raises(OSError) as caught:  # noqa: PT011 The number is compared below.
        call(disk)

    assert caught.value.errno == code


def test_a_lock_holds_against_every_other_open() -> None:
    disk = Disk()
    one, two = (disk.open("/f", "create") for _ in range(2))

    assert disk.try_lock(one)
    assert disk.try_lock(one)
    assert not disk.try_lock(two)
    disk.close(one)
    assert disk.try_lock(two)
