"""A small durable key-value store on the write coordinator."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

import msgspec

from strandline.io import SystemIo
from strandline.values import Durability, InvalidError
from strandline.writes import Coordinator, Settings, Subscriber, WriteView

Pair = tuple[str, str]
Pairs = Mapping[str, str]


class Changes:
    """The pairs set since the last freeze; the context is how many were ever set."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pairs: dict[str, str] = {}

    def apply(self, write: Pair) -> int:
        key, value = write
        if not key:
            raise InvalidError("a key is not empty")
        self._pairs[key] = value
        self._count += 1
        return self._count

    def size(self) -> int:
        return sum(len(key) + len(value) for key, value in self._pairs.items())

    def freeze(self) -> tuple[Pairs, int]:
        return self._pairs, self._count

    def reader(self) -> Pairs:
        return dict(self._pairs)


class LineFile:
    """Appends each flush to a file, one line of JSON, and keeps all pairs in memory."""

    def __init__(self, path: Path) -> None:
        self._io = SystemIo()
        self._fd = self._io.open(str(path), "create")
        self._io.sync_directory(str(path.parent))
        content = self._io.pread(self._fd, self._io.size(self._fd), 0)
        whole = content[: content.rfind(b"\n") + 1]
        self._end = len(whole)
        self.pairs: dict[str, str] = {}
        for line in whole.splitlines():
            self.pairs.update(msgspec.json.decode(line, type=dict[str, str]))

    def flush(self, frozen: Pairs, _epochs: range) -> Pairs:
        line = msgspec.json.encode(frozen) + b"\n"
        self._io.pwrite(self._fd, line, self._end)
        self._end += len(line)
        self.pairs = {**self.pairs, **frozen}
        return MappingProxyType(self.pairs)

    def sync(self) -> None:
        self._io.sync(self._fd)

    def close(self) -> None:
        self._io.close(self._fd)


class Store:
    """`set` returns when the pair is durable; `get` sees every pair that was set."""

    def __init__(self, path: Path) -> None:
        self._file = LineFile(path)
        self._writes: Coordinator[Pair, int, Pairs, Pairs, Pairs, int] = Coordinator(
            Settings(), ["set"], context=0, snapshot=self._file.pairs, delta=Changes,
            flusher=self._file,
        )  # fmt: skip
        self._writes.start()
        self._set = self._writes.channel("set")

    def set(self, key: str, value: str) -> None:
        self._set.write((key, value), Durability.DURABLE)

    def get(self, key: str) -> str | None:
        view: WriteView[Pairs, Pairs, Pairs] = self._writes.view()
        for pairs in (view.current, *(frozen.value for frozen in view.frozen), view.snapshot):
            if key in pairs:
                return pairs[key]
        return None

    def follow(self) -> Subscriber[Pairs, Pairs, Pairs]:
        return self._writes.subscribe()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writes.stop()
        self._file.close()
