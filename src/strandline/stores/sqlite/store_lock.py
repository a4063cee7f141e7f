"""The one lock under which every process writes, checkpoints and closes."""

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator

from strandline.clock import Clock
from strandline.io import Io
from strandline.values import InvalidError, UnavailableError

_PID_BYTES = 12
#: Where the last holder signs: with bytes that no other lock has, not even one of a
#: process that has the same number elsewhere.
_SIGNED_AT = 32
_SIGNATURE_BYTES = 16
_made = itertools.count()
_SUSPECT_AT = 16
_DELAY_MIN_S = 0.000_05
_DELAY_MAX_S = 0.002


class StoreLock:
    """An OS lock on a file beside the database; excludes threads and processes alike.

    The file tells who holds the lock or held it last, and whether a sync has failed
    since the last whole checkpoint.
    """

    def __init__(self, io: Io, clock: Clock, path: str) -> None:
        self._io = io
        self._clock = clock
        self._path = path
        self._thread = threading.Lock()
        self._fd: int | None = None
        self._inode = 0, 0
        self._pid = b"%-12d" % os.getpid()
        self._signature = clock.random_bytes(12) + (next(_made) & 0xFFFFFFFF).to_bytes(4, "big")
        #: How often somebody else has held the lock since we did. The holder's.
        self.breaks = 0
        #: The thread that holds it for a block of its own, and so must not ask for it again.
        self.block_thread = 0

    def try_acquire(self) -> bool:
        """Take the lock if that needs no waiting; the holder then asks `is_unbroken`."""
        if not self._thread.acquire(False):
            return False
        try:
            if self._fd is not None and self._io.try_lock(self._fd):
                return True
        except BaseException:
            self._thread.release()
            raise
        self._thread.release()
        return False

    def is_current(self) -> bool:
        """Whether the lock excludes everybody: its file is still there. The holder's."""
        try:
            return self._io.identity(self._path) == self._inode
        except FileNotFoundError:
            return False

    def is_unbroken(self) -> bool:
        """Whether the lock excludes everybody, and we were the last to hold it. The holder's."""
        return self._fd is not None and self.is_current() and self._is_signed(self._fd)

    def acquire(self, timeout_s: float) -> None:
        """Take the lock, or raise UnavailableError with its holder after `timeout_s`."""
        if self.block_thread == threading.get_ident():
            raise InvalidError(
                "this thread is in the midst of a transaction, make this call before or after it"
            )
        deadline = self._clock.monotonic() + timeout_s
        if not self._thread.acquire(timeout=max(0.0, timeout_s)):
            raise UnavailableError(
                "another thread of this process is writing, try again", pid=os.getpid()
            )
        try:
            self._lock_file(deadline)
        except BaseException:
            self._thread.release()
            raise

    def renew(self, deadline: float) -> None:
        """Take the lock on the file that is there now, or raise as `acquire`. The holder's."""
        self._close_file()
        self._lock_file(deadline)

    def release(self) -> None:
        """Let the lock go."""
        try:
            if self._fd is not None:
                self._io.unlock(self._fd)
        except OSError:
            # Closing lets go, too.
            self._close_file()
        finally:
            self._thread.release()

    @contextlib.contextmanager
    def held(self, timeout_s: float) -> Iterator[None]:
        """Hold the lock for a block."""
        self.acquire(timeout_s)
        try:
            yield
        finally:
            self.release()

    def close(self) -> None:
        """Give the file back. Nobody uses the lock any more."""
        with self._thread:
            self._close_file()

    def disown(self) -> None:
        """Close the file in a forked child, which would hold the lock longer than its parent."""
        self._thread = threading.Lock()
        self._close_file()

    # --- after a failed sync ---

    def suspect(self) -> None:
        """Note for every process that a sync has failed. Needs no lock."""
        fd = self._io.open(self._path, "create")
        try:
            self._io.pwrite(fd, b"!", _SUSPECT_AT)
        finally:
            self._io.close(fd)

    def clear_suspicion(self) -> None:
        """Note that all is well again. The caller holds the lock."""
        assert self._fd is not None
        self._io.pwrite(self._fd, b" ", _SUSPECT_AT)

    def is_suspected(self) -> bool:
        """Whether a sync has failed and nothing has been done about it. Needs no lock."""
        try:
            fd = self._io.open(self._path, "read")
        except FileNotFoundError:
            return False
        try:
            return self._io.pread(fd, 1, _SUSPECT_AT) == b"!"
        finally:
            self._io.close(fd)

    # --- inside ---

    def _lock_file(self, deadline: float) -> None:
        delay_s = _DELAY_MIN_S
        while True:
            fd = self._open()
            if self._io.try_lock(fd):
                if self.is_current():
                    self._sign(fd)
                    return
                # Somebody removed the file: a lock on it excludes nobody.
                self._close_file()
                continue
            remaining_s = deadline - self._clock.monotonic()
            if remaining_s <= 0:
                raise UnavailableError(
                    "another process holds the log's lock, try again",
                    pid=self._holder(fd),
                    lock=self._path,
                )
            self._pause(min(delay_s, remaining_s))
            delay_s = min(2 * delay_s, _DELAY_MAX_S)

    def _close_file(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            # It is closed even so, and nothing in it has to last.
            with contextlib.suppress(OSError):
                self._io.close(fd)

    def _open(self) -> int:
        if self._fd is None:
            self._fd = self._io.open(self._path, "create")
            self._inode = self._io.identity(self._fd)
        return self._fd

    def _sign(self, fd: int) -> None:
        if not self._is_signed(fd):
            self.breaks += 1
            self._io.pwrite(fd, self._pid, 0)
            self._io.pwrite(fd, self._signature, _SIGNED_AT)

    def _is_signed(self, fd: int) -> bool:
        return self._io.pread(fd, _SIGNATURE_BYTES, _SIGNED_AT) == self._signature

    def _holder(self, fd: int) -> int | None:
        text = self._io.pread(fd, _PID_BYTES, 0).strip()
        return int(text) if text.isdigit() else None

    def _pause(self, delay_s: float) -> None:
        # Uneven pauses keep two processes from missing the lock in step.
        share = 0.5 + self._clock.random_bytes(1)[0] / 512
        self._clock.wait(threading.Event(), delay_s * share)
