"""The faulty io: it remembers everything and fails exactly where it is set to."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.io import Io, SystemIo
from strandline.testing import FaultyIo, Operation

PATIENCE_S = 10


@pytest.fixture
def io() -> FaultyIo:
    return FaultyIo(SystemIo())


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file")


@pytest.fixture
def fd(io: FaultyIo, path: str) -> Iterator[int]:
    fd = io.open(path, "create")
    yield fd
    io.clear_faults()
    io.close(fd)


def test_every_operation_is_passed_on_and_recorded(io: FaultyIo, tmp_path: Path) -> None:
    folder, old, new = str(tmp_path / "d"), str(tmp_path / "d/old"), str(tmp_path / "d/new")
    through: Io = io

    through.mkdir(folder)
    fd = through.open(old, "create_new")
    locked = through.try_lock(fd)
    through.preallocate(fd, 8)
    through.pwrite(fd, bytearray(b"abc"), 2)
    through.truncate(fd, 5)
    through.sync(fd)
    through.uncache(fd, 5, 0)
    read, size, status = through.pread(fd, 3, 2), through.size(fd), through.stat(fd)
    identity = through.identity(fd)
    through.unlock(fd)
    through.close(fd)
    through.replace(old, new)
    moved = through.stat(new)
    same = (moved.inode, moved.size, through.identity(new)) == (status.inode, status.size, identity)
    names, there = through.list(folder), through.exists(old)
    through.unlink(new)
    through.sync_directory(folder)

    assert (locked, read, size, same, names, there) == (True, b"abc", 5, True, ["new"], False)
    assert io.operations == (
        Operation("mkdir", folder),
        Operation("open", old, mode="create_new"),
        Operation("try_lock", old),
        Operation("preallocate", old, length=8),
        Operation("pwrite", old, offset=2, length=3, data=b"abc"),
        Operation("truncate", old, length=5),
        Operation("sync", old),
        Operation("pread", old, offset=2, length=3),
        Operation("size", old),
        Operation("stat", old),
        Operation("identity", old),
        Operation("unlock", old),
        Operation("close", old),
        Operation("replace", old, target=new),
        Operation("stat", new),
        Operation("identity", new),
        Operation("list", folder),
        Operation("exists", old),
        Operation("unlink", new),
        Operation("sync_directory", folder),
    )


def test_the_nth_operation_fails_once_and_has_no_effect(io: FaultyIo, fd: int, path: str) -> None:
    fault = io.fail(2, errno.ENOSPC)

    io.pwrite(fd, b"a", 0)
    with pytest.raises(OSError, match="No space left") as caught:
        io.pwrite(fd, b"b", 1)
    io.pwrite(fd, b"c", 2)

    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == path
    assert Path(path).read_bytes() == b"a\0c"
    assert fault.fired == 1


def test_only_operations_of_the_given_kinds_are_counted(io: FaultyIo, fd: int) -> None:
    io.fail(2, errno.EIO, kinds=["sync"])

    io.sync(fd)
    io.pwrite(fd, b"a", 0)
    with pytest.raises(OSError, match="Input/output"):
        io.sync(fd)


def test_a_fault_may_last_for_ever_and_be_healed(io: FaultyIo, fd: int) -> None:
    fault = io.fail(1, errno.EIO, kinds=["sync"], forever=True)

    for _ in range(3):
        with pytest.raises(OSError, match="Input/output"):
            io.sync(fd)
    io.clear_faults()
    io.sync(fd)

    assert fault.fired == 3


def test_a_short_write_lands_its_first_bytes(io: FaultyIo, fd: int, path: str) -> None:
    io.write_short(1, errno.ENOSPC, keep_bytes=2)

    with pytest.raises(OSError, match="No space left"):
        io.pwrite(fd, b"abcd", 1)

    assert Path(path).read_bytes() == b"\0ab"


def test_a_fault_may_strike_after_the_operation_took_effect(
    io: FaultyIo, fd: int, path: str
) -> None:
    io.fail(1, errno.EIO, after=True)

    with pytest.raises(OSError, match="Input/output"):
        io.pwrite(fd, b"abc", 0)

    assert Path(path).read_bytes() == b"abc"


def test_a_failed_close_has_closed(io: FaultyIo, path: str) -> None:
    fd = io.open(path, "create")
    io.fail(1, errno.EIO, kinds=["close"])

    with pytest.raises(OSError, match="Input/output"):
        io.close(fd)

    with pytest.raises(OSError, match="Bad file descriptor"):
        io.size(fd)


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), ZeroDivisionError("x")])
def test_any_exception_can_be_planned(io: FaultyIo, fd: int, error: BaseException) -> None:
    io.fail(1, error)

    with pytest.raises(type(error)) as caught:
        io.sync(fd)

    assert caught.value is error


def test_a_hook_sees_the_operation_before_it_happens(io: FaultyIo, fd: int, path: str) -> None:
    seen: list[tuple[Operation, bytes]] = []
    io.before(2, lambda operation: seen.append((operation, Path(path).read_bytes())))

    io.pwrite(fd, b"a", 0)
    io.pwrite(fd, b"b", 1)

    assert seen == [(Operation("pwrite", path, 1, 1, b"b"), b"a")]
    assert Path(path).read_bytes() == b"ab"


def test_a_hook_can_hold_an_operation_while_others_continue(io: FaultyIo, fd: int) -> None:
    reached, gate = threading.Event(), threading.Event()

    def hold(_: Operation) -> None:
        reached.set()
        gate.wait(PATIENCE_S)

    io.before(1, hold, kinds=["sync"])
    syncing = threading.Thread(target=io.sync, args=(fd,))
    syncing.start()
    assert reached.wait(PATIENCE_S)

    io.pwrite(fd, b"a", 0)
    assert syncing.is_alive()
    gate.set()
    syncing.join(PATIENCE_S)

    assert io.count("sync", "pwrite") == 2


def test_operations_are_counted_by_kind(io: FaultyIo, fd: int) -> None:
    io.pwrite(fd, b"a", 0)
    io.pwrite(fd, b"b", 1)
    io.sync(fd)

    assert io.count("pwrite") == 2
    assert io.count("pwrite", "sync") == 3
    assert io.count() == 4


def test_failing_each_operation_in_turn_ends_when_the_workload_completes(tmp_path: Path) -> None:
    completed_at = 0
    for nth in range(1, 100):
        io = FaultyIo(SystemIo())
        fault = io.fail(nth, errno.EIO)
        try:
            fd = io.open(str(tmp_path / "file"), "create")
            io.pwrite(fd, b"a", 0)
            io.sync(fd)
            io.close(fd)
        except OSError:
            assert fault.fired
            continue
        assert not fault.fired
        completed_at = nth
        break

    assert completed_at == 5


def test_a_reboot_is_another_boot_for_every_io_that_had_it() -> None:
    before, one, other = SystemIo().boot_id(), FaultyIo(SystemIo()), FaultyIo(SystemIo())
    assert one.boot_id() == before

    one.reboot()
    other.reboot()

    assert one.boot_id() == other.boot_id() != before
    assert len(one.boot_id()) == 8
