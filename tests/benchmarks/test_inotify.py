"""Bare inotify."""

import threading
from pathlib import Path

import pytest

from benchmarks.inotify import Inotify


def test_a_write_wakes_the_waiters(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    inotify = Inotify(path)
    woken = threading.Event()

    def wait() -> None:
        inotify.wait()
        woken.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    with path.open("ab", buffering=0) as file:
        file.write(b"x")

    assert woken.wait(10)
    waiter.join()
    inotify.close()


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Inotify(tmp_path / "missing")
