"""The one lock under which every process writes, checkpoints and closes."""

import contextlib
import functools
import itertools
import logging
import os
import struct
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from strandline._core import IS_COMPILED
from strandline.clock import Clock
from strandline.io import Io, SystemIo
from strandline.locks import Attempt, holding
from strandline.log.holders import LogHolder, local_writer
from strandline.stores.file_errors import is_refused, unavailable
from strandline.values import InvalidError, UnavailableError

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import is_signed
else:
    is_signed = None

_PID_BYTES = 12
#: The position of the last holder's signature: bytes that are unique to one lock object,
#: even among processes with the same pid on different machines.
_SIGNED_AT = 32
_SIGNATURE_BYTES = 16
#: What the core compares: descriptor, device, inode, position and signature; then the path.
_SIGN = struct.Struct(f"=qQQq{_SIGNATURE_BYTES}s")
_made = itertools.count()
_SUSPECT_AT = 16
_DELAY_MIN_S = 0.000_05
_DELAY_MAX_S = 0.002
#: How long a close waits for another thread that holds the lock.
_CLOSE_S = 1.0

_logger = logging.getLogger("strandline")


class StoreLock:
    """An OS lock on a file beside the database; excludes threads and processes alike.

    The file names the process that holds the lock or held it last, and whether a sync has failed
    since the last whole checkpoint.
    """

    def __init__(self, io: Io, clock: Clock, path: str) -> None:
        self._io = io
        self._clock = clock
        self._path = path
        self._thread = threading.Lock()
        self._attempt = Attempt(self._thread)
        #: The thread that holds it, or 0.
        self._owner = 0
        self._fd: int | None = None
        self._inode = 0, 0
        self._pid = b"%-12d" % os.getpid()
        self._signature = clock.random_bytes(12) + (next(_made) & 0xFFFFFFFF).to_bytes(4, "big")
        #: The core's `is_unbroken`, which runs no Python code; None if only Python can check it.
        self.look: Callable[[], bool] | None = None
        #: How often another process has held the lock since we did. For the holder.
        self.breaks: int = 0
        #: The thread that holds it for a caller's block, and so must not take it again.
        self.block_thread = 0

    def try_acquire(self) -> bool:
        """Take the lock if it is free; the holder then checks `is_unbroken`."""
        me = threading.get_ident()
        if not self._attempt:
            return False
        self._owner = me
        try:
            if self._fd is not None and self._io.try_lock(self._fd):
                return True
            self.release()
        except BaseException:
            self.release()
            raise
        return False

    @property
    def is_mine(self) -> bool:
        """Whether this thread holds the lock."""
        return self._owner == threading.get_ident()

    def is_current(self) -> bool:
        """Whether the lock excludes all others: its file is still there. For the holder."""
        try:
            return self._io.identity(self._path) == self._inode
        except FileNotFoundError:
            return False

    def is_unbroken(self) -> bool:
        """Whether it excludes all others, and we were the last to hold it. For the holder."""
        if (look := self.look) is not None:
            return look()
        return self._fd is not None and self.is_current() and self._is_signed(self._fd)

    def acquire(self, timeout_s: float) -> None:
        """Take the lock, or raise UnavailableError with its holder after `timeout_s`."""
        if self.block_thread == threading.get_ident():
            raise InvalidError(
                "this thread is inside a transaction, make this call before or after it"
            )
        deadline = self._clock.monotonic() + timeout_s
        me = threading.get_ident()
        if not Attempt(self._thread, timeout_s):
            raise UnavailableError(
                "another thread of this process is writing, try again", pid=os.getpid()
            )
        self._owner = me
        try:
            self._lock_file(deadline)
        except BaseException:
            self.release()
            raise

    def renew(self, deadline: float) -> None:
        """Take the lock on the current file, or raise as `acquire`. For the holder."""
        self._close_file()
        self._lock_file(deadline)

    def release(self) -> None:
        """Release the lock; without effect for a thread that does not hold it."""
        if self._owner != threading.get_ident():
            return
        try:
            try:
                self._unlock_file()
            except BaseException:
                # Interrupted, it may not be unlocked yet.
                self._unlock_file()
                raise
        finally:
            self._owner = 0
            self._thread.release()

    @holding
    def held(self, timeout_s: float) -> Iterator[None]:
        """Hold the lock for a block."""
        self.acquire(timeout_s)
        try:
            yield
        finally:
            try:
                self.release()
            except BaseException:
                self.release()
                raise

    def close(self) -> None:
        """Close the file. The lock is no longer in use."""
        if not Attempt(self._thread, _CLOSE_S):
            # Other threads cannot use it either: the end of the process closes it.
            _logger.warning("a thread still holds %s while its log is closed", self._path)
            return
        try:
            self._close_file()
        finally:
            self._thread.release()

    def disown(self) -> None:
        """Close the file in a forked child, which could hold the lock longer than its parent."""
        self._thread = threading.Lock()
        self._attempt = Attempt(self._thread)
        self._owner = 0
        self._close_file()

    # --- after a failed sync ---

    def suspect(self) -> None:
        """Record for every process that a sync has failed. Needs no lock."""
        fd = self._io.open(self._path, "create")
        try:
            self._io.pwrite(fd, b"!", _SUSPECT_AT)
        finally:
            self._io.close(fd)

    def clear_suspicion(self) -> None:
        """Record that the failure was repaired. The caller holds the lock."""
        assert self._fd is not None
        self._io.pwrite(self._fd, b" ", _SUSPECT_AT)

    def is_suspected(self) -> bool:
        """Whether a sync has failed and was not repaired yet. Needs no lock."""
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
                # The file was removed: a lock on it excludes no other process.
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

    def last_writer(self) -> LogHolder | None:
        """Return the process that holds the lock, or held it last; None if none is known."""
        try:
            fd = self._io.open(self._path, "read")
        except FileNotFoundError:
            return None
        try:
            pid, changed_ns = self._holder(fd), self._io.stat(fd).changed_ns
        finally:
            self._io.close(fd)
        return None if pid is None else local_writer(pid, changed_ns // 1000)

    def _unlock_file(self) -> None:
        try:
            if self._fd is not None:
                self._io.unlock(self._fd)
        except OSError:
            # Closing releases the lock, too.
            self._close_file()

    def _close_file(self) -> None:
        fd, self._fd = self._fd, None
        self.look = None
        if fd is not None:
            # It is closed despite the error, and its content need not be durable.
            with contextlib.suppress(OSError):
                self._io.close(fd)

    def _open(self) -> int:
        if self._fd is None:
            try:
                self._fd = self._io.open(self._path, "create")
            except OSError as error:
                if not is_refused(error):
                    raise
                raise unavailable(error, self._path) from error
            self._inode = self._io.identity(self._fd)
            if IS_COMPILED and type(self._io) is SystemIo:
                place = _SIGN.pack(self._fd, *self._inode, _SIGNED_AT, self._signature)
                self.look = functools.partial(is_signed, place + os.fsencode(self._path) + b"\0")
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
        # Random pauses prevent two processes from missing the lock in step.
        share = 0.5 + self._clock.random_bytes(1)[0] / 512
        self._clock.wait(threading.Event(), delay_s * share)
