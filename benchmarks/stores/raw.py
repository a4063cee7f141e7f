"""The least that a Python program can do: encode the event, write it, sync it."""

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

from benchmarks.events import Sample
from benchmarks.stores.ours import event_of, frame_of
from strandline.values import Durability

PREALLOCATED_BYTES = 8 << 20
_ZEROS = bytes(1 << 20)


def preallocate(path: Path) -> None:
    """Make a file of zeros that are on the disk: what is written into it later grows nothing."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for _ in range(PREALLOCATED_BYTES // len(_ZEROS)):
            os.write(fd, _ZEROS)
        os.fsync(fd)
    finally:
        os.close(fd)


class RawFile:
    """Our own encoder, and one `os.write`; if durable, a sync, on a preallocated file."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self._is_durable = durability is Durability.DURABLE
        if self._is_durable:
            preallocate(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        self._numbers = count()

    def append(self, sample: Sample) -> None:
        self.write(self.frame(sample))

    def encoded(self, samples: Sequence[Sample]) -> list[bytes]:
        return [self.frame(sample) for sample in samples]

    def append_encoded(self, events: list[bytes]) -> None:
        self.write(b"".join(events))

    def frame(self, sample: Sample) -> bytes:
        """Return the sample as it stands in the file."""
        return frame_of(event_of(sample), next(self._numbers))

    def write(self, frames: bytes) -> None:
        """Write, and sync if durable."""
        os.write(self._fd, frames)
        if self._is_durable:
            os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class GroupCommit:
    """The same for many threads: one more thread writes and syncs for all who wait."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self._file = RawFile(path, durability)
        self._waiting: list[tuple[bytes, threading.Lock]] = []
        self._is_closing = False
        self._work = threading.Lock()
        self._work.acquire()
        self._writer = threading.Thread(target=self._write)
        self._writer.start()

    def append(self, sample: Sample) -> None:
        self._wait(self._file.frame(sample))

    def encoded(self, samples: Sequence[Sample]) -> list[bytes]:
        return self._file.encoded(samples)

    def append_encoded(self, events: list[bytes]) -> None:
        self._wait(b"".join(events))

    def close(self) -> None:
        self._is_closing = True
        self._rouse()
        self._writer.join()
        self._file.close()

    def _wait(self, frames: bytes) -> None:
        done = threading.Lock()
        done.acquire()
        self._waiting.append((frames, done))
        self._rouse()
        done.acquire()

    def _rouse(self) -> None:
        # Two who rouse at once rouse once.
        with suppress(RuntimeError):
            self._work.release()

    def _write(self) -> None:
        while not self._is_closing:
            self._work.acquire()
            while group := self._waiting:
                self._waiting = []
                self._file.write(b"".join([frames for frames, _ in group]))
                for _, done in group:
                    done.release()


class AsyncGroupCommit:
    """The same for the tasks of a loop; a thread does what would make the loop wait."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self._file = RawFile(path, durability)
        self._pool = ThreadPoolExecutor(1) if durability is Durability.DURABLE else None
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def append(self, sample: Sample) -> None:
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((self._file.frame(sample), done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await done

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._file.close()

    async def _write(self) -> None:
        while group := self._waiting:
            self._waiting = []
            frames = b"".join([each for each, _ in group])
            if self._pool is None:
                self._file.write(frames)
            else:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._pool, self._file.write, frames)
            for _, done in group:
                done.set_result(None)
            # The thread that was waiting may have the next event ready.
            await asyncio.sleep(0)
        self._writer = None
