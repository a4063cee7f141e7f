"""The door to the file system: what each operation does to real files."""

import errno
import itertools
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.io import Io, OpenMode, SystemIo, replace_file
from strandline.testing import FaultyIo, OperationKind

MODES: list[OpenMode] = ["read", "write", "create", "create_new"]


@pytest.fixture
def io() -> Io:
    return SystemIo()


@pytest.fixture
def fd(io: Io, tmp_path: Path) -> Iterator[int]:
    fd = io.open(str(tmp_path / "file"), "create")
    yield fd
    io.close(fd)


def test_what_was_written_is_read_back(io: Io, fd: int) -> None:
    io.pwrite(fd, b"hello world", 0)
    io.pwrite(fd, memoryview(bytearray(b"W")), 6)
    io.sync(fd)

    assert io.pread(fd, 5, 6) == b"World"
    assert io.size(fd) == 11


def test_large_writes_are_read_back_and_durable_like_small_ones(io: Io, fd: int) -> None:
    large = bytes(range(256)) * 10_000
    io.pwrite(fd, large, 3)
    io.pwrite(fd, memoryview(large), 3 + len(large))
    io.sync(fd)

    assert io.pread(fd, 2 * len(large), 3) == large + large
    assert io.size(fd) == 3 + 2 * len(large)


def test_a_read_is_short_only_where_the_file_ends(io: Io, fd: int) -> None:
    io.pwrite(fd, b"abc", 0)

    assert io.pread(fd, 10, 1) == b"bc"
    assert io.pread(fd, 10, 3) == b""


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_missing_file_is_opened_only_if_it_may_be_made(
    io: Io, tmp_path: Path, mode: OpenMode
) -> None:
    with pytest.raises(FileNotFoundError):
        io.open(str(tmp_path / "missing"), mode)

    assert io.list(str(tmp_path)) == []


def test_exclusive_creation_refuses_an_existing_file(io: Io, fd: int, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        io.open(str(tmp_path / "file"), "create_new")


def test_a_file_opened_for_reading_cannot_be_written(io: Io, fd: int, tmp_path: Path) -> None:
    reader = io.open(str(tmp_path / "file"), "read")

    with pytest.raises(OSError, match="Bad file descriptor"):
        io.pwrite(reader, b"x", 0)
    io.close(reader)


def test_a_descriptor_is_not_inherited_by_child_programs(fd: int) -> None:
    assert not os.get_inheritable(fd)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", ["file", "nowhere"])
def test_a_planted_symlink_is_refused_in_every_mode(
    io: Io, fd: int, tmp_path: Path, mode: OpenMode, target: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / target)

    with pytest.raises(OSError, match=r"symbolic link|exists"):
        io.open(str(tmp_path / "link"), mode)

    assert not (tmp_path / "nowhere").exists()


def test_a_planted_symlink_to_a_directory_is_neither_listed_nor_synced(
    io: Io, tmp_path: Path
) -> None:
    io.mkdir(str(tmp_path / "real"))
    (tmp_path / "link").symlink_to(tmp_path / "real")

    for refused in (io.list, io.sync_directory):
        with pytest.raises(NotADirectoryError):
            refused(str(tmp_path / "link"))


def test_a_stingy_system_still_gets_every_byte_written(
    io: Io, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:3], at))

    io.pwrite(fd, b"0123456789", 5)

    assert io.pread(fd, 100, 5) == b"0123456789"


def test_pieces_are_written_one_after_the_other(io: Io, fd: int) -> None:
    many = [b"%04d" % number for number in range(3000)]

    io.pwritev(fd, many, 2)
    io.pwritev(fd, [bytearray(b"ab"), b"", memoryview(b"cd")], 0)

    assert io.pread(fd, 1 << 20, 0) == b"abcd" + b"".join(many)[2:]


@pytest.mark.parametrize("most", [1, 3, 4, 7])
def test_a_stingy_system_still_gets_every_byte_of_all_pieces(
    io: Io, fd: int, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    def some(fd: int, pieces: list[bytes], at: int) -> int:
        return os.pwrite(fd, b"".join(pieces)[:most], at)

    monkeypatch.setattr(os, "pwritev", some)

    io.pwritev(fd, [b"0123", b"456", b"", b"789"], 5)

    assert io.pread(fd, 100, 5) == b"0123456789"


def test_a_write_cut_short_by_a_limit_raises_what_stopped_it(io: Io, fd: int) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            io.pwrite(fd, b"x" * 100, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert io.size(fd) == 50


def test_a_system_that_takes_nothing_is_an_error_and_not_a_loop(
    io: Io, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 0)

    with pytest.raises(OSError, match="no more bytes"):
        io.pwrite(fd, b"x", 0)


def refuse_with(code: int) -> object:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize("supported", [True, False])
def test_preallocating_makes_room_and_keeps_what_is_there(
    io: Io, fd: int, supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not supported:
        monkeypatch.setattr(os, "posix_fallocate", refuse_with(errno.EOPNOTSUPP))
    io.pwrite(fd, b"abc", 0)

    is_reserved = io.preallocate(fd, 8192)
    io.preallocate(fd, 10)

    assert is_reserved is supported
    assert io.size(fd) == 8192
    assert io.pread(fd, 6, 0) == b"abc\0\0\0"


def test_a_full_disk_is_not_taken_for_a_missing_feature(
    io: Io, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", refuse_with(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        io.preallocate(fd, 8192)

    assert io.size(fd) == 0


def test_what_is_no_longer_cached_can_still_be_read(io: Io, fd: int) -> None:
    content = os.urandom(3 * 4096 + 1)
    io.pwrite(fd, content, 0)
    io.sync(fd)

    io.uncache(fd, len(content) - 2, 1)

    assert io.pread(fd, len(content), 0) == content


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no such hint on this system")
def test_a_file_system_that_takes_no_hints_is_no_error(
    io: Io, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fadvise", refuse_with(errno.EINVAL))
    io.pwrite(fd, b"abc", 0)

    io.uncache(fd, 3, 0)

    assert io.pread(fd, 3, 0) == b"abc"


def test_truncating_cuts_and_extends(io: Io, fd: int) -> None:
    io.pwrite(fd, b"abcdef", 0)

    io.truncate(fd, 2)
    io.truncate(fd, 4)

    assert io.pread(fd, 10, 0) == b"ab\0\0"


def test_a_lock_holds_against_every_other_open_until_it_is_released(
    io: Io, fd: int, tmp_path: Path
) -> None:
    other = io.open(str(tmp_path / "file"), "write")

    assert io.try_lock(fd)
    assert io.try_lock(fd)
    assert not io.try_lock(other)
    io.unlock(fd)
    assert io.try_lock(other)
    assert not io.try_lock(fd)
    io.close(other)
    assert io.try_lock(fd)


def test_a_replaced_file_is_distinguished_from_the_one_that_is_open(
    io: Io, fd: int, tmp_path: Path
) -> None:
    path = str(tmp_path / "file")
    assert io.stat(path) == io.stat(fd)
    assert io.identity(path) == io.identity(fd) == (io.stat(fd).device, io.stat(fd).inode)

    replace_file(io, path, b"new", unique="1")

    assert io.identity(path) != io.identity(fd)
    assert (io.stat(path).device, io.stat(path).inode) != (io.stat(fd).device, io.stat(fd).inode)


def test_the_status_shows_size_and_directories(io: Io, fd: int, tmp_path: Path) -> None:
    io.pwrite(fd, b"abc", 0)

    assert io.stat(fd).size == 3
    assert not io.stat(fd).is_directory
    assert io.stat(str(tmp_path)).is_directory


def test_the_status_of_a_link_is_its_own(io: Io, fd: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")

    assert io.stat(str(tmp_path / "link")).inode != io.stat(fd).inode
    assert io.identity(str(tmp_path / "link")) != io.identity(fd)


def test_names_are_listed_in_order_and_a_link_to_nowhere_exists(io: Io, tmp_path: Path) -> None:
    for name in ("b", "a"):
        io.mkdir(str(tmp_path / name))
    (tmp_path / "c").symlink_to("nowhere")

    assert io.list(str(tmp_path)) == ["a", "b", "c"]
    assert io.exists(str(tmp_path / "c"))
    assert not io.exists(str(tmp_path / "d"))


def test_a_directory_is_made_once_and_only_inside_an_existing_one(io: Io, tmp_path: Path) -> None:
    io.mkdir(str(tmp_path / "a"))

    with pytest.raises(FileExistsError):
        io.mkdir(str(tmp_path / "a"))
    with pytest.raises(FileNotFoundError):
        io.mkdir(str(tmp_path / "x" / "y"))


def test_an_unlinked_file_is_gone(io: Io, fd: int, tmp_path: Path) -> None:
    io.unlink(str(tmp_path / "file"))
    io.sync_directory(str(tmp_path))

    assert io.list(str(tmp_path)) == []


def test_every_process_on_a_machine_that_stays_up_knows_the_same_boot(io: Io) -> None:
    program = "from strandline.io import SystemIo; print(SystemIo().boot_id().hex())"
    printed = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    ).stdout

    assert len(io.boot_id()) == 8
    assert printed.strip() == io.boot_id().hex()
    assert SystemIo().boot_id() == io.boot_id()


def test_a_machine_that_does_not_name_its_boot_is_an_error(
    io: Io, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "read", lambda fd, length: b"\n")

    with pytest.raises(OSError, match="has no boot id"):
        io.boot_id()


def test_replacing_a_file_syncs_it_before_the_rename_and_the_directory_after(
    tmp_path: Path,
) -> None:
    io = FaultyIo(SystemIo())

    replace_file(io, str(tmp_path / "manifest"), b"content", unique="7")

    kinds = [operation.kind for operation in io.operations]
    assert kinds == ["open", "pwrite", "sync", "close", "replace", "sync_directory"]
    assert (tmp_path / "manifest").read_bytes() == b"content"


def test_a_file_in_the_current_directory_is_replaced_too(
    io: Io, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    replace_file(io, "manifest", b"content", unique="7")

    assert io.list(".") == ["manifest"]


def test_a_temporary_file_of_another_program_is_left_alone(io: Io, tmp_path: Path) -> None:
    (tmp_path / "manifest.7.tmp").write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        replace_file(io, str(tmp_path / "manifest"), b"content", unique="7")

    assert (tmp_path / "manifest.7.tmp").read_bytes() == b"theirs"


REAL_ERRORS = st.sampled_from([errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE])
# An open that took effect and failed all the same has no descriptor to clean up after.
EFFECTIVE: tuple[OperationKind, ...] = ("pwrite", "sync", "close", "replace", "sync_directory")


@pytest.mark.slow
@settings(max_examples=30)
@given(
    old=st.none() | st.binary(max_size=50),
    new=st.binary(max_size=50),
    error=REAL_ERRORS | st.just(KeyboardInterrupt()),
    after=st.booleans(),
    keep_bytes=st.none() | st.integers(1, 50),
)
def test_a_failure_at_any_operation_leaves_the_old_content_or_the_new_and_no_temporary_file(
    old: bytes | None,
    new: bytes,
    error: int | BaseException,
    after: bool,
    keep_bytes: int | None,
) -> None:
    for nth in itertools.count(1):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "manifest")
            if old is not None:
                path.write_bytes(old)
            io = FaultyIo(SystemIo())
            if keep_bytes is not None:
                fault = io.write_short(nth, error, keep_bytes=keep_bytes)
            else:
                fault = io.fail(nth, error, kinds=EFFECTIVE if after else None, after=after)

            raised = False
            try:
                replace_file(io, str(path), new, unique="7")
            except (OSError, KeyboardInterrupt):
                raised = True

            content = path.read_bytes() if path.exists() else None
            assert raised == bool(fault.fired)
            assert content in ((old, new) if raised else (new,))
            assert set(os.listdir(folder)) <= {"manifest"}
            if not fault.fired:
                return


@pytest.mark.parametrize("nth", range(1, 7))
def test_a_disk_that_stays_broken_never_harms_the_old_content(tmp_path: Path, nth: int) -> None:
    path = tmp_path / "manifest"
    path.write_bytes(b"old")
    io = FaultyIo(SystemIo())
    io.fail(nth, errno.EIO, forever=True)

    with pytest.raises(OSError, match="Input/output error"):
        replace_file(io, str(path), b"new", unique="7")

    assert path.read_bytes() == (b"new" if nth == 6 else b"old")


def test_the_limit_of_open_files_rises_before_it_is_reached(io: Io, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = [io.open(str(tmp_path / "file"), "create")]
    limit = max(128, 2 * opened[0])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        while opened[-1] < 2 * limit:
            opened.append(io.open(str(tmp_path / "file"), "read"))
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        for fd in opened:
            io.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    # The program can open files of its own, too.
    assert raised == (8 * limit, before[1])


@pytest.mark.slow
def test_the_error_at_the_hard_limit_of_open_files_names_the_limit(tmp_path: Path) -> None:
    program = f"""
import resource, strandline as sl
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
with sl.open("file:{tmp_path / "log"}") as log:
    log.create_topic("orders", partitions=100)
    try:
        for partition in range(100):
            log.append("orders", sl.Event("placed"), partition=partition)
    except sl.UnavailableError as error:
        assert "raise its limit (ulimit -n)" in str(error), error
    try:
        log.describe()
    except sl.UnavailableError as error:
        assert "raise its limit (ulimit -n)" in str(error), error
        print("refused")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert (ended.stdout, ended.stderr) == ("refused\n", "")
