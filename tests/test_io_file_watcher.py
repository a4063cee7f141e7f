"""The file watcher: a waiting thread is woken by a change of a file by any process."""

import contextlib
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from strandline.io import FileWatcher, SystemIo, replace_file
from strandline.io import file_watcher as file_watcher_module
from strandline.testing import FaultyIo
from strandline.testing.conformance_checks import started
from tests.threads import let_it_block

PATIENCE_S = 20.0
WRITER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for line in sys.stdin:
    os.pwrite(fd, line.encode(), 0)
"""


@pytest.fixture(params=["notices", "polling"])
def io(request: pytest.FixtureRequest) -> FaultyIo:
    io = FaultyIo(SystemIo())
    if request.param == "polling":
        io.stop_notices()
    return io


@pytest.fixture
def file_watcher(io: FaultyIo) -> Iterator[FileWatcher]:
    file_watcher = io.file_watcher()
    yield file_watcher
    file_watcher.close()


@pytest.fixture
def noticing() -> Iterator[FileWatcher]:
    file_watcher = SystemIo().file_watcher()
    yield file_watcher
    file_watcher.close()


@pytest.fixture
def tail(tmp_path: Path) -> Path:
    path = tmp_path / "p0" / "tail"
    path.parent.mkdir()
    path.write_bytes(b"0")
    return path


@pytest.mark.slow
def test_what_another_process_writes_is_reported(file_watcher: FileWatcher, tail: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tail)]
    for path in (tail, tail.parent):
        file_watcher.add(str(path))
        with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as writer:
            assert writer.stdin is not None
            for number in range(1, 50):
                text = f"{path.name:>4} {number:>4}\n"
                writer.stdin.write(text)
                writer.stdin.flush()
                while tail.read_text() != text:
                    assert file_watcher.wait(PATIENCE_S) <= {str(path)}
            writer.stdin.close()
        file_watcher.remove(str(path))


def test_nothing_is_reported_where_nothing_happens(noticing: FileWatcher, tail: Path) -> None:
    noticing.add(str(tail))

    assert noticing.wait(0) == set()
    assert noticing.wait(0.01) == set()


def test_only_what_changed_is_reported_and_once(noticing: FileWatcher, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.touch()
        noticing.add(str(path))

    paths[0].write_bytes(b"x")
    paths[2].write_bytes(b"x")

    assert noticing.wait(PATIENCE_S) == {str(paths[0]), str(paths[2])}
    assert noticing.wait(0) == set()


def test_a_directory_is_reported_for_every_change_in_it(noticing: FileWatcher, tail: Path) -> None:
    noticing.add(str(tail.parent))
    changes: list[Callable[[], object]] = [
        lambda: tail.write_bytes(b"x"),
        lambda: tail.rename(tail.with_name("other")),
        lambda: tail.with_name("other").unlink(),
        tail.touch,
        lambda: replace_file(SystemIo(), str(tail), b"new", unique="7"),
    ]
    for change in changes:
        change()

        assert noticing.wait(PATIENCE_S) == {str(tail.parent)}
        while noticing.wait(0):
            pass


def test_what_was_removed_is_reported_no_more(file_watcher: FileWatcher, tail: Path) -> None:
    file_watcher.add(str(tail))
    file_watcher.remove(str(tail))
    file_watcher.remove(str(tail))

    tail.write_bytes(b"x")

    assert file_watcher.wait(0) == set()


def test_adding_twice_is_adding_once(file_watcher: FileWatcher, tail: Path) -> None:
    file_watcher.add(str(tail))
    file_watcher.add(str(tail))
    file_watcher.remove(str(tail))

    tail.write_bytes(b"x")

    assert file_watcher.wait(0) == set()


def test_one_file_by_two_paths_is_reported_by_both(noticing: FileWatcher, tail: Path) -> None:
    other = f"{tail.parent}/../p0/tail"
    noticing.add(str(tail))
    noticing.add(other)

    tail.write_bytes(b"x")
    assert noticing.wait(PATIENCE_S) == {str(tail), other}
    noticing.remove(str(tail))
    tail.write_bytes(b"y")

    assert noticing.wait(PATIENCE_S) == {other}


def test_a_missing_path_and_a_link_are_refused(file_watcher: FileWatcher, tail: Path) -> None:
    tail.with_name("link").symlink_to(tail)

    with pytest.raises(FileNotFoundError):
        file_watcher.add(str(tail.with_name("missing")))
    with pytest.raises(OSError, match="symbolic link"):
        file_watcher.add(str(tail.with_name("link")))

    assert file_watcher.wait(0) == set()


@pytest.mark.parametrize("is_held", [True, False])
def test_a_file_that_is_put_in_its_place_is_followed(
    noticing: FileWatcher, tail: Path, is_held: bool
) -> None:
    noticing.add(str(tail))
    with contextlib.ExitStack() as held:
        if is_held:
            held.enter_context(tail.open("rb"))
        replace_file(SystemIo(), str(tail), b"new", unique="7")
        assert noticing.wait(PATIENCE_S) == {str(tail)}
        while noticing.wait(0):
            pass

        tail.write_bytes(b"newer")

        assert noticing.wait(PATIENCE_S) == {str(tail)}


def test_a_path_that_went_away_and_came_again_is_reported(
    file_watcher: FileWatcher, tail: Path
) -> None:
    file_watcher.add(str(tail.parent))
    tail.unlink()
    tail.parent.rmdir()
    assert file_watcher.wait(PATIENCE_S) == {str(tail.parent)}

    tail.parent.mkdir()
    tail.write_bytes(b"back")

    assert file_watcher.wait(PATIENCE_S) == {str(tail.parent)}


def test_a_path_that_was_moved_away_is_not_followed(noticing: FileWatcher, tail: Path) -> None:
    noticing.add(str(tail))
    moved = tail.rename(tail.with_name("moved"))
    assert noticing.wait(PATIENCE_S) == {str(tail)}
    noticing.remove(str(tail))

    moved.write_bytes(b"x")

    assert noticing.wait(0) == set()


def test_when_notices_are_lost_everything_is_reported(
    noticing: FileWatcher, tmp_path: Path
) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.touch()
        noticing.add(str(path))
    fds = [os.open(path, os.O_RDWR) for path in paths[:2]]
    for number in range(limit + 10):
        # One after the other: the same notice twice in a row would be one.
        os.pwrite(fds[number % 2], b"x", 0)
    # All of this is lost.
    replace_file(SystemIo(), str(paths[2]), b"new", unique="7")
    for fd in fds:
        os.close(fd)

    reported: set[str] = set()
    while str(paths[2]) not in reported:
        found = noticing.wait(0)
        assert found, "the lost change was never reported"
        reported |= found
    while noticing.wait(0):
        pass
    paths[2].write_bytes(b"newer")

    assert reported == {str(path) for path in paths}
    assert noticing.wait(PATIENCE_S) == {str(paths[2])}


def test_wake_ends_the_present_wait_or_the_next(file_watcher: FileWatcher) -> None:
    file_watcher.wake()
    assert file_watcher.wait() == set()

    sleeping = started(file_watcher.wait)
    let_it_block()
    assert not sleeping.done()
    file_watcher.wake()

    assert sleeping.result(PATIENCE_S) == set()


def test_who_is_woken_leaves_the_notices_for_the_next_wait_and_no_longer(
    noticing: FileWatcher, tail: Path
) -> None:
    noticing.add(str(tail))
    tail.write_bytes(b"more")

    noticing.wake()
    first = noticing.wait(PATIENCE_S)
    noticing.wake()
    second = noticing.wait(PATIENCE_S)

    assert (first, second) == (set(), {str(tail)})


def test_a_wait_without_limit_sees_a_path_added_meanwhile(
    file_watcher: FileWatcher, tail: Path
) -> None:
    def follow() -> None:
        while tail.read_bytes() != b"x":
            file_watcher.wait()

    sleeping = started(follow)
    let_it_block()
    file_watcher.add(str(tail))
    tail.write_bytes(b"x")

    sleeping.result(PATIENCE_S)


def test_closing_ends_a_wait_and_gives_every_descriptor_back(io: FaultyIo, tail: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    file_watcher = io.file_watcher()
    file_watcher.add(str(tail.parent.parent))
    blocked = threading.Event()

    def wait() -> None:
        blocked.set()
        for _ in itertools.count():
            file_watcher.wait()

    sleeping = started(wait)
    assert blocked.wait(PATIENCE_S)
    file_watcher.close()
    file_watcher.close()

    assert isinstance(sleeping.exception(PATIENCE_S), OSError)
    with pytest.raises(OSError, match="closed"):
        file_watcher.add(str(tail))
    with pytest.raises(OSError, match="closed"):
        file_watcher.wait(0)
    file_watcher.remove(str(tail.parent.parent))
    file_watcher.wake()
    assert set(os.listdir("/proc/self/fd")) == before


def test_polling_slows_down_until_something_is_found(
    tail: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = FaultyIo(SystemIo())
    io.stop_notices()
    file_watcher = io.file_watcher()
    file_watcher.add(str(tail))
    file_watcher.wait()
    slept: list[float | None] = []

    def sleep(_: object, timeout_s: float | None) -> bool:
        slept.append(timeout_s)
        return False

    monkeypatch.setattr(file_watcher_module._TimedWait, "block", sleep)  # noqa: SLF001
    for _ in range(7):
        file_watcher.wait()
    file_watcher.found()
    file_watcher.wait()
    # A glance in passing is no reason to slow down.
    file_watcher.wait(0)
    file_watcher.wait()

    assert slept == [0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05, 0.001, 0, 0.002]


EXHAUSTED = """
import os, resource, sys, ctypes
how, first, second = sys.argv[1:]
if how == "watches":
    # Before the import of anything that starts a thread.
    if ctypes.CDLL(None).unshare(0x10000000):
        sys.exit(77)
    try:
        with open("/proc/sys/user/max_inotify_watches", "w") as limit:
            limit.write("1")
    except OSError:
        sys.exit(77)
from strandline.io import SystemIo
if how == "watches":
    file_watcher = SystemIo().file_watcher()
else:
    unused = os.open("/dev/null", os.O_RDONLY)
    os.close(unused)
    # One is left: for the notices, and then none to be woken by.
    spare = 1 if how == "one descriptor" else 0
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (unused + spare, hard))
    file_watcher = SystemIo().file_watcher()
    resource.setrlimit(resource.RLIMIT_NOFILE, (unused + 10, hard))
    assert os.open("/dev/null", os.O_RDONLY) == unused, "a descriptor was kept"
file_watcher.add(first)
file_watcher.add(second)
print("ready", flush=True)
reported = set()
while reported != {first, second}:
    reported |= file_watcher.wait()
    print(*sorted(reported), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["watches", "descriptors", "one descriptor"])
def test_where_notices_have_run_out_polling_takes_over(tmp_path: Path, how: str) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.touch()
    command = [sys.executable, "-c", EXHAUSTED, how, *map(str, paths)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        for path in paths:
            path.write_bytes(b"x")
        lines = process.stdout.read().splitlines()

    if process.returncode == 77:
        pytest.skip("this system does not allow a limit on its notices")
    assert ready == "ready\n"
    assert lines[-1] == f"{paths[0]} {paths[1]}"


def test_a_forked_child_leaves_its_parents_notices_alone(noticing: FileWatcher, tail: Path) -> None:
    noticing.add(str(tail))
    child = os.fork()
    if child == 0:
        noticing.remove(str(tail))
        noticing.wake()
        noticing.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

    assert noticing.wait(0) == set()
    tail.write_bytes(b"x")

    assert noticing.wait(PATIENCE_S) == {str(tail)}


@pytest.mark.slow
def test_no_change_is_lost_while_others_add_remove_and_wake(
    file_watcher: FileWatcher, tmp_path: Path
) -> None:
    tails = [tmp_path / f"t{number}" for number in range(4)]
    for path in tails:
        path.write_bytes(b"0")
    file_watcher.add(str(tails[0]))
    is_over = threading.Event()

    def fiddle(path: Path) -> None:
        while not is_over.is_set():
            file_watcher.add(str(path))
            path.write_bytes(b"x")
            file_watcher.remove(str(path))
            file_watcher.wake()

    fiddlers = [started(partial(fiddle, path)) for path in tails[1:]]
    fd = os.open(tails[0], os.O_RDWR)
    try:
        for number in range(300):
            os.pwrite(fd, b"%4d" % number, 0)
            while str(tails[0]) not in file_watcher.wait(PATIENCE_S):
                pass
    finally:
        is_over.set()
        os.close(fd)

    for fiddler in fiddlers:
        fiddler.result(PATIENCE_S)
