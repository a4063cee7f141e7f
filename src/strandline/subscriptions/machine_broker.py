"""Wake-ups between the processes of one machine, by files in a directory. See design 0042."""

import contextlib
import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TypeAlias
from uuid import UUID

import msgspec

from strandline.clock import Clock, SystemClock
from strandline.io import Io, SystemIo, real_path
from strandline.io.file_watcher import FileWatcher
from strandline.locks import start_thread
from strandline.log import LiveSubscription, TopicName
from strandline.subscriptions.broker import LocalBroker, key_of, wanted_topic
from strandline.values import InvalidError, Tenant, Topic, parse_tenant
from strandline.values.arguments import check_path
from strandline.values.prompt import prompt_text

_WAKE = ".wake"
_LIVE = ".live"

TopicKey: TypeAlias = "tuple[Tenant | None, str]"
"""What `key_of` returns."""


class MachineBroker:
    """Implements Broker for all processes of a machine that name the same directory.

    The directory is created if it is missing. Nothing in it is needed after the last process
    has ended; it should be on a local disk or in memory.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        io: Io | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._io = io if io is not None else SystemIo()
        self._clock = clock if clock is not None else SystemClock()
        self._path = real_path(check_path("path", path))
        self._local = LocalBroker()
        self._lock = threading.Lock()
        self._file_watcher: FileWatcher | None = None
        #: Files written to wake other processes; and files whose locks show that we are alive.
        self._wakes: dict[TopicKey, int] = {}
        self._signs: set[int] = set()
        self._is_closed = False
        try:
            if not self._io.exists(self._path):
                self._io.mkdir(self._path)
        except FileExistsError:
            pass
        except OSError as error:
            raise InvalidError(
                "this directory cannot be made", path=self._path, reason=str(error)
            ) from error
        _instances.add(self)

    def publish(self, topic: TopicName, /) -> None:
        key = key_of(topic)
        fd = self._wakes.get(key)
        self._io.pwrite(self._open_wake(key) if fd is None else fd, b"!", 0)

    def attach(self, live: LiveSubscription, wake: Callable[[], None], /) -> Callable[[], None]:
        key = key_of(live.topic)
        self._open_wake(key)
        with self._lock:
            if self._file_watcher is None:
                file_watcher = self._io.file_watcher()
                start_thread(
                    threading.Thread(
                        target=self._listen,
                        args=(file_watcher,),
                        name="strandline-broker",
                        daemon=True,
                    )
                )
                self._file_watcher = file_watcher
            self._file_watcher.add(self._file(_name(key), _WAKE))
        detach = self._local.attach(live, wake)
        try:
            path, fd = self._sign(live)
        except BaseException:
            detach()
            raise

        def end() -> None:
            detach()
            with self._lock:
                if fd not in self._signs:
                    return
                self._signs.discard(fd)
            with contextlib.suppress(FileNotFoundError):
                self._io.unlink(path)
            self._io.close(fd)

        return end

    def live(self, topic: Topic | None = None, /) -> Sequence[LiveSubscription]:
        wanted_topic(topic)
        found = [self._read(name) for name in self._io.list(self._path) if name.endswith(_LIVE)]
        return [each for each in found if each and (topic is None or each.topic == topic)]

    def __repr__(self) -> str:
        return prompt_text("MachineBroker", self._path, closed=self._is_closed)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            file_watcher, self._file_watcher = self._file_watcher, None
            fds = [*self._wakes.values(), *self._signs]
            self._wakes.clear()
            self._signs.clear()
        self._local.close()
        if file_watcher is not None:
            file_watcher.close()
        for fd in fds:
            self._io.close(fd)

    def disown(self) -> None:
        """Close in a forked child the files that show that its parent is alive."""
        self._lock = threading.Lock()
        self._file_watcher = None
        fds, self._signs = self._signs, set()
        for fd in fds:
            self._io.close(fd)
        self._local = LocalBroker()

    # --- waking ---

    def _open_wake(self, key: TopicKey) -> int:
        with self._lock:
            if self._is_closed:
                raise InvalidError("this broker was closed, make another")
            fd = self._wakes.get(key)
            if fd is None:
                fd = self._wakes[key] = self._io.open(self._file(_name(key), _WAKE), "create")
            return fd

    def _listen(self, file_watcher: FileWatcher) -> None:
        while True:
            try:
                changed = file_watcher.wait()
            except OSError:
                # It was closed.
                return
            names = {os.path.basename(path).removesuffix(_WAKE) for path in changed}
            for attached in self._local.attached():
                if _name(key_of(attached.live.topic)) in names:
                    attached.wake()

    # --- heartbeats ---

    def _sign(self, live: LiveSubscription) -> tuple[str, int]:
        """Write the subscription to a file that stays locked as long as the process runs."""
        name = self._clock.new_id().hex
        unready, path = self._file(name, ".new"), self._file(name, _LIVE)
        fd = self._io.open(unready, "create")
        try:
            self._io.try_lock(fd)
            self._io.pwrite(fd, _encode(live), 0)
            # A process that finds the file by this name finds it locked and complete.
            self._io.replace(unready, path)
        except BaseException:
            self._io.close(fd)
            raise
        with self._lock:
            self._signs.add(fd)
        return path, fd

    def _read(self, name: str) -> LiveSubscription | None:
        path = os.path.join(self._path, name)
        try:
            fd = self._io.open(path, "read")
        except FileNotFoundError:
            return None
        try:
            if self._io.try_lock(fd):
                # No process holds its lock: the writer was killed.
                with contextlib.suppress(OSError):
                    self._io.unlink(path)
                return None
            return _decode(self._io.pread(fd, self._io.size(fd), 0))
        finally:
            self._io.close(fd)

    def _file(self, name: str, ending: str) -> str:
        return os.path.join(self._path, name + ending)


def _name(key: TopicKey) -> str:
    tenant, name = key
    return hashlib.sha256(f"{tenant or ''}/{name}".encode()).hexdigest()[:32]


class _Sign(msgspec.Struct):
    """The content of a subscription's file."""

    topic: str
    id: UUID
    owner: str | None
    name: str | None
    tenant: str | None
    pid: int


def _encode(live: LiveSubscription) -> bytes:
    topic = live.topic
    sign = _Sign(topic.name, topic.id, topic.tenant, live.name, live.tenant, live.pid)
    return msgspec.json.encode(sign)


def _decode(text: bytes) -> LiveSubscription | None:
    try:
        sign = msgspec.json.decode(text, type=_Sign)
        topic = Topic(sign.topic, sign.id, parse_tenant(sign.owner))
        return LiveSubscription(topic, sign.name, parse_tenant(sign.tenant), sign.pid)
    except (msgspec.DecodeError, InvalidError):
        # Not our file; listing subscriptions must not fail because of it.
        return None


_instances: weakref.WeakSet[MachineBroker] = weakref.WeakSet()


def _reset_in_child() -> None:
    for broker in tuple(_instances):
        broker.disown()


os.register_at_fork(after_in_child=_reset_in_child)
