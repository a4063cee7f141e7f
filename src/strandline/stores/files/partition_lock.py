"""The lock that one writer at a time holds on a partition. Local to one machine."""

import contextlib
import os
import threading
import weakref

from strandline.log.holders import LogHolder, local_writer
from strandline.stores.files.manifest import LockIdentity
from strandline.stores.files.place import Place
from strandline.stores.files.tail import WANTED, WANTED_AT
from strandline.stores.open_file import OpenFile
from strandline.values import UnavailableError

LOCK = "lock"
HOLDER = "holder"
#: The pause between two tries: it starts with the first and doubles up to the second.
_SLEEP_MIN_S = 0.00002
_SLEEP_MAX_S = 0.002
_SPINS = 8

#: The locks that logs of this process keep for themselves, by their paths.
_kept: "weakref.WeakValueDictionary[str, PartitionLock]" = weakref.WeakValueDictionary()
#: In the child of a fork they are its parent's.
os.register_at_fork(after_in_child=_kept.clear)


class PartitionLock:
    """Not thread-safe: the thread that drains uses it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._io = place.io
        self._path = place.path(LOCK)
        self._file: OpenFile | None = None
        self._holder: OpenFile | None = None
        #: Identifies the lock file that is open, or was open last.
        self.identity: LockIdentity
        self.is_held: bool = False
        self._name = b"%-20d\n" % os.getpid()
        self._never = threading.Event()

    def handles(self) -> tuple[OpenFile, OpenFile | None] | None:
        """Return the lock file and the file with its holder's name; None if it is not open."""
        return None if self._file is None else (self._file, self._holder)

    def attempt(self) -> bool:
        """Take the lock; return whether it was free."""
        if self._file is None:
            self._keep(OpenFile(self._io, self._path, "create"))
        file = self._file
        assert file is not None
        # Set first, so that an interrupted attempt is released, too.
        self.is_held = True
        if not self._io.try_lock(file.fd):
            self.is_held = False
            if not file.is_in_place():
                self.close_file()
            return False
        if file.is_in_place():
            return True
        # The file was removed or replaced while we waited.
        self.close_file()
        return False

    def keep_until_closed(self) -> None:
        """Note that it is held until the log is closed, and not from append to append."""
        _kept[self._path] = self

    def check_may_come_free(self) -> None:
        """Raise UnavailableError if a log of this process keeps it: to wait would not help."""
        keeper = _kept.get(self._path)
        if keeper is not None and keeper is not self and keeper.is_held:
            raise UnavailableError(
                "another log object of this process holds the partition by exclusive=True, append"
                " through that one or close it first",
                partition=self._place.partition,
                topic=self._place.topic.name,
            )

    def wait(self, timeout_s: float, tail: OpenFile | None) -> None:
        """Take the lock once it is free; UnavailableError, with the holder, when the time is up.

        A process that keeps the lock between its appends is asked for it through the tail.
        """
        clock = self._place.clock
        deadline = clock.monotonic() + timeout_s
        sleep_s, spins = _SLEEP_MIN_S, _SPINS
        while clock.monotonic() < deadline:
            self._ask(tail)
            if spins:
                spins -= 1
                os.sched_yield()
            else:
                clock.wait(self._never, min(sleep_s, max(0.0, deadline - clock.monotonic())))
                sleep_s = min(2 * sleep_s, _SLEEP_MAX_S)
            if self.attempt():
                return
        pid = self.holder()
        raise UnavailableError(
            "another process holds the partition, try again or open the log with take_over=True",
            pid=pid,
            partition=self._place.partition,
            topic=self._place.topic.name,
        )

    def _ask(self, tail: OpenFile | None) -> None:
        # Asked again with each try: a process that takes the lock clears the request.
        if tail is not None:
            with contextlib.suppress(OSError):
                self._io.pwrite(tail.fd, WANTED, WANTED_AT)

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None and self.is_held:
            try:
                self._io.unlock(self._file.fd)
            except OSError:
                # Closing the file releases the lock, too.
                self.close_file()
            # Last: an interrupted release is repeated.
            self.is_held = False

    def is_in_place(self) -> bool:
        """Whether the lock file held is still the one that other processes would take."""
        return self._file is not None and self._file.is_in_place()

    def check(self) -> None:
        """Raise UnavailableError unless the lock file held is still the current one."""
        if not self.is_in_place():
            raise UnavailableError("the partition's files were replaced meanwhile, try again")

    def close_file(self) -> None:
        """Close the file, which releases the lock."""
        self.is_held = False
        if self._file is not None:
            self._file.close()
        # The file with the holder's name is replaced together with it.
        self._file = self._holder = None

    def replace(self, unique: str) -> None:
        """Replace a lock file whose holder does not release it with a new one that we hold."""
        self.close_file()
        temporary = f"{self._path}.{unique}.tmp"
        file = OpenFile(self._io, temporary, "create_new")
        try:
            if not self._io.try_lock(file.fd):
                raise UnavailableError("a lock file without a holder is locked, try again")
            self._io.replace(temporary, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                self._io.unlink(temporary)
            file.close()
            raise
        file.path = self._path
        self._keep(file)
        self.is_held = True

    def name_holder(self) -> None:
        """Store the holder of the lock, for the error that other processes get."""
        # Not in the lock file itself, which must not change.
        if self._holder is None:
            self._holder = OpenFile(self._io, self._place.path(HOLDER), "create")
        self._io.pwrite(self._holder.fd, self._name, 0)

    def holder(self) -> int | None:
        """Return the stored holder of the lock, if there is one."""
        try:
            holder = OpenFile(self._io, self._place.path(HOLDER), "read")
        except FileNotFoundError:
            return None
        text = self._io.pread(holder.fd, 20, 0).strip()
        holder.close()
        return int(text) if text.isdigit() else None

    def _keep(self, file: OpenFile) -> None:
        found = self._io.stat(file.fd)
        self.identity = found.device, found.inode, found.changed_ns
        self._file = file


def last_writer(place: Place) -> LogHolder | None:
    """Return the process that holds a partition's lock, or held it last; None if none is known."""
    pid = PartitionLock(place).holder()
    if pid is None:
        return None
    changed_ns = place.io.stat(place.path(HOLDER)).changed_ns
    topic = place.topic
    return local_writer(
        *(pid, changed_ns // 1000),
        topic=topic.name,
        tenant=topic.tenant,
        partition=int(place.partition),
    )
