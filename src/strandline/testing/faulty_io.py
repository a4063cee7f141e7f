"""An io that records every operation and fails where a test plans it."""

import errno
import hashlib
import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NoReturn, TypeVar

from strandline.io import Buffer, FileStatus, FileWatcher, Io, OpenMode
from strandline.values.prompt import prompt_text

OperationKind = Literal[
    "open",
    "close",
    "pread",
    "pwrite",
    "preallocate",
    "truncate",
    "size",
    "sync",
    "sync_directory",
    "replace",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "list",
    "exists",
    "stat",
    "identity",
    "try_lock",
    "unlock",
    "file_watcher",
    "boot_id",
]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Operation:
    """A recorded call; arguments that do not apply are None."""

    kind: OperationKind
    path: str
    offset: int | None = None
    length: int | None = None
    data: bytes | None = field(default=None, repr=False)
    target: str | None = None
    mode: OpenMode | None = None


@dataclass(slots=True)
class Fault:
    """A planned fault, and how often it has fired."""

    nth: int
    kinds: Collection[OperationKind] | None
    forever: bool
    error: int | BaseException | None
    after: bool = False
    keep_bytes: int = 0
    hook: Callable[[Operation], None] | None = None
    seen: int = 0
    fired: int = 0

    def fires(self, operation: Operation) -> bool:
        """Count `operation` and return whether it is one to fail."""
        if self.kinds is not None and operation.kind not in self.kinds:
            return False
        self.seen += 1
        hit = self.seen == self.nth or (self.forever and self.seen > self.nth)
        self.fired += hit
        return hit

    def exception(self, operation: Operation) -> BaseException:
        """Return what `operation` raises."""
        if isinstance(self.error, BaseException):
            return self.error
        assert self.error is not None
        return OSError(self.error, os.strerror(self.error), operation.path)


class FaultyIo:
    """An Io over another one, which records operations and raises planned faults.

    Counting starts at 1, when the fault is planned. To fail each operation of a workload in
    turn, plan the Nth for N = 1, 2, … until `fired` stays 0.
    """

    def __init__(self, inner: Io) -> None:
        self._inner = inner
        # Reentrant: garbage collection may close a file at any point of a thread.
        self._lock = threading.RLock()
        self._operations: list[Operation] = []
        self._faults: list[Fault] = []
        self._paths: dict[int, str] = {}
        self._reboots = 0
        self._reports_changes = True

    def __repr__(self) -> str:
        return prompt_text("FaultyIo", operations=len(self._operations), faults=len(self._faults))

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Every operation so far, in the order of the calls."""
        with self._lock:
            return tuple(self._operations)

    def count(self, *kinds: OperationKind) -> int:
        """Return how many operations there were, of these kinds if any are given."""
        return sum(not kinds or operation.kind in kinds for operation in self.operations)

    def fail(
        self,
        nth: int,
        error: int | BaseException,
        *,
        kinds: Collection[OperationKind] | None = None,
        forever: bool = False,
        after: bool = False,
    ) -> Fault:
        """Let the `nth` operation raise: an errno as OSError, or the exception given.

        `forever` fails all later ones, too; `after` lets the operation take effect before it
        raises. A close always takes effect, as in practice.
        """
        return self._plan(Fault(nth, kinds, forever, error, after))

    def write_short(
        self, nth: int, error: int | BaseException, *, keep_bytes: int, forever: bool = False
    ) -> Fault:
        """Let the `nth` pwrite store its first `keep_bytes` bytes and then raise."""
        kinds: tuple[OperationKind] = ("pwrite",)
        return self._plan(Fault(nth, kinds, forever, error, keep_bytes=keep_bytes))

    def before(
        self,
        nth: int,
        hook: Callable[[Operation], None],
        *,
        kinds: Collection[OperationKind] | None = None,
        forever: bool = False,
    ) -> Fault:
        """Call `hook` just before the `nth` operation; it may inspect, wait or raise."""
        return self._plan(Fault(nth, kinds, forever, None, hook=hook))

    def clear_faults(self) -> None:
        """Remove all planned faults."""
        with self._lock:
            self._faults.clear()

    def reboot(self) -> None:
        """Simulate a reboot of the machine: the boot id is different from now on."""
        self._reboots += 1

    def stop_notices(self) -> None:
        """Simulate a machine without file notifications: new file watchers have to poll."""
        self._reports_changes = False

    def open(self, path: str, mode: OpenMode, /) -> int:
        """See Io."""
        fd = self._run(Operation("open", path, mode=mode), lambda: self._inner.open(path, mode))
        with self._lock:
            self._paths[fd] = path
        return fd

    def close(self, fd: int, /) -> None:
        """See Io."""
        operation = self._on(fd, "close")
        # Before the call: another thread may get the same number right after it.
        with self._lock:
            self._paths.pop(fd, None)
        self._run(operation, lambda: self._inner.close(fd))

    def pread(self, fd: int, length: int, offset: int, /) -> bytes:
        """See Io."""
        operation = self._on(fd, "pread", offset=offset, length=length)
        return self._run(operation, lambda: self._inner.pread(fd, length, offset))

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> None:
        """See Io."""
        content = bytes(data)
        operation = self._on(fd, "pwrite", offset=offset, length=len(content), data=content)
        self._run(
            operation,
            lambda: self._inner.pwrite(fd, content, offset),
            lambda keep_bytes: self._inner.pwrite(fd, content[:keep_bytes], offset),
        )

    def pwritev(self, fd: int, pieces: Sequence[Buffer], offset: int, /) -> None:
        """See Io. Recorded as one `pwrite`, which may be torn anywhere."""
        self.pwrite(fd, b"".join(pieces), offset)

    def uncache(self, fd: int, length: int, offset: int, /) -> None:
        """See Io. Not recorded as an operation, because nothing changes."""
        self._inner.uncache(fd, length, offset)

    def preallocate(self, fd: int, length: int, /) -> bool:
        """See Io."""
        operation = self._on(fd, "preallocate", length=length)
        return self._run(operation, lambda: self._inner.preallocate(fd, length))

    def truncate(self, fd: int, length: int, /) -> None:
        """See Io."""
        operation = self._on(fd, "truncate", length=length)
        self._run(operation, lambda: self._inner.truncate(fd, length))

    def size(self, fd: int, /) -> int:
        """See Io."""
        return self._run(self._on(fd, "size"), lambda: self._inner.size(fd))

    def sync(self, fd: int, /) -> None:
        """See Io."""
        self._run(self._on(fd, "sync"), lambda: self._inner.sync(fd))

    def sync_directory(self, path: str, /) -> None:
        """See Io."""
        self._run(Operation("sync_directory", path), lambda: self._inner.sync_directory(path))

    def replace(self, source: str, target: str, /) -> None:
        """See Io."""
        operation = Operation("replace", source, target=target)
        self._run(operation, lambda: self._inner.replace(source, target))

    def link(self, source: str, target: str, /) -> None:
        """See Io."""
        operation = Operation("link", source, target=target)
        self._run(operation, lambda: self._inner.link(source, target))

    def unlink(self, path: str, /) -> None:
        """See Io."""
        self._run(Operation("unlink", path), lambda: self._inner.unlink(path))

    def mkdir(self, path: str, /) -> None:
        """See Io."""
        self._run(Operation("mkdir", path), lambda: self._inner.mkdir(path))

    def rmdir(self, path: str, /) -> None:
        """See Io."""
        self._run(Operation("rmdir", path), lambda: self._inner.rmdir(path))

    def list(self, path: str, /) -> "list[str]":
        """See Io."""
        return self._run(Operation("list", path), lambda: self._inner.list(path))

    def exists(self, path: str, /) -> bool:
        """See Io."""
        return self._run(Operation("exists", path), lambda: self._inner.exists(path))

    def stat(self, target: str | int, /) -> FileStatus:
        """See Io."""
        operation = (
            Operation("stat", target) if isinstance(target, str) else self._on(target, "stat")
        )
        return self._run(operation, lambda: self._inner.stat(target))

    def identity(self, target: str | int, /) -> tuple[int, int]:
        """See Io."""
        operation = (
            Operation("identity", target)
            if isinstance(target, str)
            else self._on(target, "identity")
        )
        return self._run(operation, lambda: self._inner.identity(target))

    def try_lock(self, fd: int, /) -> bool:
        """See Io."""
        return self._run(self._on(fd, "try_lock"), lambda: self._inner.try_lock(fd))

    def unlock(self, fd: int, /) -> None:
        """See Io."""
        self._run(self._on(fd, "unlock"), lambda: self._inner.unlock(fd))

    def file_watcher(self) -> FileWatcher:
        """See Io."""
        make = (
            self._inner.file_watcher if self._reports_changes else partial(FileWatcher, _no_inotify)
        )
        return self._run(Operation("file_watcher", ""), make)

    def boot_id(self) -> bytes:
        """See Io."""
        known = self._run(Operation("boot_id", ""), self._inner.boot_id)
        for _ in range(self._reboots):
            known = hashlib.blake2b(known, digest_size=len(known)).digest()
        return known

    def _plan(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def _on(
        self,
        fd: int,
        kind: OperationKind,
        *,
        offset: int | None = None,
        length: int | None = None,
        data: bytes | None = None,
    ) -> Operation:
        with self._lock:
            path = self._paths.get(fd, f"fd {fd}")
        return Operation(kind, path, offset, length, data)

    def _run(
        self,
        operation: Operation,
        act: Callable[[], Result],
        act_partly: Callable[[int], None] = lambda _: None,
    ) -> Result:
        with self._lock:
            self._operations.append(operation)
            firing = [fault for fault in self._faults if fault.fires(operation)]
        for fault in firing:
            if fault.hook is not None:
                fault.hook(operation)
        for fault in firing:
            if fault.error is not None:
                if fault.after or operation.kind == "close":
                    act()
                elif fault.keep_bytes:
                    act_partly(fault.keep_bytes)
                raise fault.exception(operation)
        return act()


def _no_inotify() -> NoReturn:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
