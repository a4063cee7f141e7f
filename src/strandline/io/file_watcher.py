"""Waits until a file changes, also by another process."""

import errno
import os
import select
import stat as stat_bits
import threading
from collections.abc import Callable

from strandline.io.inotify import Inotify, Notice
from strandline.locks import Signal

#: How often to poll if the system sends no notifications: at first after this time, twice
#: that after each poll without a change, and at least once per the second value.
POLL_MIN_S = 0.001
POLL_MAX_S = 0.05

_GONE = {errno.ENOENT, errno.ENOTDIR}


class FileWatcher:
    """Reports to one waiting thread which paths may have changed.

    A path is a file, or a directory with the files in it. If the system sends no
    notifications for a path, the path is reported from time to time.
    Only one thread may wait at a time; all other calls may be made from any thread, and
    have no effect in a child of a fork.
    """

    def __init__(self, new_inotify: Callable[[], Inotify] = Inotify) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._wait: _NotifiedWait | _TimedWait
        try:
            self._wait = _NotifiedWait(new_inotify())
        except OSError:
            self._wait = _TimedWait()
        self._numbers: dict[str, int] = {}
        # One file may have two paths, but has only one number.
        self._paths: dict[int, set[str]] = {}
        self._polled: set[str] = set()
        self._delay_s = POLL_MIN_S
        self._is_waiting = False
        self._is_woken = False
        #: Whether the last wait left notifications unread.
        self._is_behind = False
        self._is_closed = False

    def add(self, path: str, /) -> None:
        """Report this path from now on. Raises OSError if it is missing, or a link."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._check_open()
            if path in self._numbers or path in self._polled:
                return
            if stat_bits.S_ISLNK(os.lstat(path).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            self._begin(path)

    def remove(self, path: str, /) -> None:
        """Stop reporting this path; no effect if it was not added."""
        if os.getpid() != self._pid:
            # The notifications are shared with the parent, which still needs them.
            return
        with self._lock:
            self._polled.discard(path)
            if path in self._numbers and not self._is_closed:
                self._end(path)

    def wait(self, timeout_s: float | None = None, /) -> set[str]:
        """Return the paths that may have changed since the last call, as soon as there are any.

        Returns none after the timeout, after `wake`, or spuriously.
        """
        if self._is_closed:
            self._check_open()
        changed: set[str] = set()
        has_notices = False
        try:
            with self._lock:
                self._check_open()
                self._is_waiting = True
                delay_s = self._delay_s if self._polled else None
            is_cut_short = timeout_s is not None and (delay_s is None or timeout_s < delay_s)
            has_notices = self._wait.block(timeout_s if is_cut_short else delay_s)
        finally:
            with self._lock:
                if self._is_waiting:
                    self._is_waiting = False
                    changed = self._changed_paths(has_notices=has_notices)
        if self._is_closed:
            self._check_open()
        if delay_s is not None and not is_cut_short:
            self._delay_s = min(2 * delay_s, POLL_MAX_S)
        return changed

    def found(self) -> None:
        """Note that a path had changed: without notifications, poll it again soon."""
        self._delay_s = POLL_MIN_S

    def wake(self) -> None:
        """End the current wait, or the next one if there is none."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._is_closed:
                self._wake()

    def close(self) -> None:
        """Release the descriptors; a running wait, and later calls, raise OSError."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._is_waiting:
                # A descriptor must not be closed while a thread waits on it: that thread closes it.
                self._wait.wake()
            else:
                self._wait.close()

    # --- inside, under the lock ---

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "the file watcher is closed")

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._wait.wake()

    def _changed_paths(self, *, has_notices: bool) -> set[str]:
        """Return the result of a wait. A woken thread has work: the rest can wait once."""
        if self._is_closed:
            self._wait.close()
            return set()
        is_woken, self._is_woken = self._is_woken, False
        if is_woken:
            self._wait.calm()
        self._is_behind = has_notices and is_woken and not self._is_behind
        changed = self._noticed() if has_notices and not self._is_behind else set()
        return changed | self._polled

    def _begin(self, path: str) -> None:
        try:
            number = self._wait.add(path)
        except OSError as error:
            if error.errno in _GONE:
                raise
            # No more watches are available, or not for this path.
            number = None
        if number is None:
            self._poll(path)
        else:
            # In this order, so that an interrupt in between has added nothing.
            self._paths.setdefault(number, set()).add(path)
            self._numbers[path] = number

    def _poll(self, path: str) -> None:
        self._polled.add(path)
        self._delay_s = POLL_MIN_S
        # A wait without a timeout has to be woken, because there is a time limit now.
        self._wake()

    def _end(self, path: str) -> None:
        number = self._numbers.pop(path)
        self._paths[number].discard(path)
        if not self._paths[number]:
            del self._paths[number]
            self._wait.remove(number)

    def _noticed(self) -> set[str]:
        notices = self._wait.notices()
        if notices is None:
            changed = renewed = {*self._numbers}
        else:
            changed, renewed = set(), set()
            for number, is_renewal in notices:
                paths = self._paths.get(number, ())
                changed.update(paths)
                if is_renewal:
                    renewed.update(paths)
        for path in renewed:
            self._end(path)
            try:
                self._begin(path)
            except OSError:
                # A file may be created there later.
                self._poll(path)
        return changed


class _NotifiedWait:
    """A wait that is ended by notifications."""

    def __init__(self, inotify: Inotify) -> None:
        self._inotify = inotify
        self.add = inotify.add
        self.remove = inotify.remove
        self.notices = inotify.read
        try:
            self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            inotify.close()
            raise
        self._poll = select.poll()
        self._poll.register(inotify.fd, select.POLLIN)
        self._poll.register(self._waker, select.POLLIN)

    def block(self, timeout_s: float | None) -> bool:
        """Return whether there are notifications."""
        has_notices = False
        for fd, _ in self._poll.poll(None if timeout_s is None else timeout_s * 1000):
            has_notices |= fd != self._waker
        return has_notices

    def wake(self) -> None:
        os.eventfd_write(self._waker, 1)

    def calm(self) -> None:
        """Reset `wake`."""
        os.eventfd_read(self._waker)

    def close(self) -> None:
        self._inotify.close()
        os.close(self._waker)


class _TimedWait:
    """A wait without notifications and without a descriptor, because these may have run out."""

    def __init__(self) -> None:
        self._woken = Signal()

    def add(self, _path: str) -> None:
        return None

    def remove(self, _number: int) -> None:
        raise AssertionError("nothing was added")

    def notices(self) -> list[Notice]:
        return []

    def block(self, timeout_s: float | None) -> bool:
        self._woken.wait(timeout_s)
        return False

    def wake(self) -> None:
        self._woken.set()

    def calm(self) -> None:
        self._woken.clear()

    def close(self) -> None:
        self._woken.set()
