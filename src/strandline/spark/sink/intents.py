"""The recorded batches, the progress of each, and the files that may be swept.

A recorded batch is never undone: the next writer finishes it from the files that it names. All
functions are called with the folder's lock held. A folder without a lock may be used by any
number of processes concurrently.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import google_crc32c
import msgspec

from strandline.spark.sink.place import StagingFolder
from strandline.values import InvalidError

#: The minimum number of finished batches of an app that are kept, to detect a repeat.
BATCHES_KEPT: Final = 100
#: How long rows are kept that were staged for a batch that was never recorded.
STAGED_AGE_S: Final = 7 * 24 * 3600
FLOOR: Final = "floor"

_NAME: Final = re.compile(r"batch-(\d+)(?:\.(intent|progress|done)|-([0-9a-f-]+)\.arrow)")


class StagedPiece(msgspec.Struct, frozen=True, array_like=True):
    """Rows in a staged file: an Arrow stream of one record batch, or its message alone."""

    file: int
    offset: int
    length: int
    rows: int
    crc: int
    #: The size of the records, for a message in a file that may become a segment; else None.
    size_bytes: int | None = None

    @property
    def is_laid_out(self) -> bool:
        """Whether it is a message in a file that may become a segment. See design 0135."""
        return self.size_bytes is not None


class Chunk(msgspec.Struct, frozen=True):
    """The rows of one partition that are appended in one step."""

    topic: int
    partition: int
    #: The partition ended here when the batch was recorded.
    start: int
    pieces: list[StagedPiece]

    @property
    def place(self) -> tuple[int, int]:
        """Which partition of which topic."""
        return self.topic, self.partition

    @property
    def is_laid_out(self) -> bool:
        """Whether its file may become a segment."""
        return self.pieces[0].is_laid_out


class Intent(msgspec.Struct, frozen=True):
    """A batch that was recorded."""

    #: A random id, drawn when the batch is recorded; part of the key of each append.
    id: str
    app: str
    version: int
    recorded_at_us: int
    #: Topic id → number of rows and their sum, see `fingerprint`.
    fingerprint: dict[str, tuple[int, int]]
    tenant: str | None = None
    durability: str = "durable"
    topics: list[str] = []
    files: list[str] = []
    chunks: list[Chunk] = []

    @property
    def format(self) -> int:
        """The format in which it is stored: the oldest one that can represent it."""
        return 2 if any(chunk.is_laid_out for chunk in self.chunks) else 1

    def key(self, index: int) -> str:
        """Return the idempotency key of a chunk."""
        return append_key(self.id, index, is_laid_out=self.chunks[index].is_laid_out)


def append_key(intent: str, index: int, *, is_laid_out: bool) -> str:
    """Return the idempotency key of a chunk; of fixed length for a file that reserves room."""
    return f"spark:{intent}:{index:08}" if is_laid_out else f"spark:{intent}:{index}"


class _Floor(msgspec.Struct, frozen=True):
    version: int


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A number of chunks in the log; the last of them ends at `end` in its partition."""

    finished: int
    end: int
    at_us: int


class Progress:
    """The progress of a recorded batch: a file with a line for each chunk.

    A chunk without a line may or may not be in the log.
    """

    def __init__(self, folder: StagingFolder, version: int) -> None:
        self._folder = folder
        self._name = _progress_name(version)
        self.steps: list[Step] = []
        self._content = b""
        try:
            content = folder.read(self._name)
        except FileNotFoundError:
            content = b""
        for line in content.splitlines(keepends=True):
            step = _step(line)
            if step is None:
                break
            self.steps.append(step)
            self._content += line

    @property
    def finished(self) -> int:
        """The number of chunks that are known to be in the log."""
        return self.steps[-1].finished if self.steps else 0

    def add(self, ends: Sequence[int]) -> None:
        """Record, durably, that these chunks are in the log with the requested durability."""
        at_us, lines = self._folder.clock.now_us(), b""
        for end in ends:
            step = Step(self.finished + 1, end, at_us)
            content = msgspec.json.encode(step)
            lines += b"%08x %s\n" % (google_crc32c.value(content), content)
            self.steps.append(step)
        self._folder.extend(self._name, self._content, lines)
        self._content += lines


def _step(line: bytes) -> Step | None:
    crc, _, content = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or crc != b"%08x" % google_crc32c.value(content):
        return None
    return msgspec.json.decode(content, type=Step)


@dataclass(frozen=True, slots=True)
class _Found:
    """A file of a folder, by its name."""

    name: str
    version: int
    what: str


class Intents:
    """The recorded batches of one app."""

    def __init__(self, folder: StagingFolder) -> None:
        self._folder = folder

    def find(self, version: int) -> Intent | None:
        """Return the batch if it is recorded; InvalidError if it is too old to know."""
        found = self._folder.load(intent_name(version), Intent)
        found = found or self._folder.load(_done_name(version), Intent)
        if found is None:
            self._check_kept(version)
        return found

    def _check_kept(self, version: int) -> None:
        floor = self._folder.load(FLOOR, _Floor)
        if floor is not None and version <= floor.version:
            raise InvalidError(
                "this batch is older than those that are kept, so it is unknown whether "
                "it was written; give the write a txnAppId of its own to write it",
                app=self._folder.app,
                version=version,
                remembered_from=floor.version + 1,
            )

    def record(self, intent: Intent) -> Intent:
        """Record the batch unless it is recorded; return the recorded one."""
        name = intent_name(intent.version)
        if self._folder.store_new(name, intent):
            if not self._folder.is_exclusive:
                self._check_still_kept(intent)
            return intent
        found = self._folder.load(name, Intent)
        assert found is not None, "what was recorded stays for as long as it is kept"
        return found

    def _check_still_kept(self, intent: Intent) -> None:
        """Remove the intent if the batch was recorded, finished and removed since `find`."""
        try:
            self._check_kept(intent.version)
        except InvalidError:
            self._folder.remove(intent_name(intent.version))
            raise

    def finish(self, intent: Intent) -> None:
        """Mark that all rows are in the log, and store their fingerprint."""
        known = Intent(
            intent.id, intent.app, intent.version, intent.recorded_at_us, intent.fingerprint
        )
        self._folder.store(_done_name(intent.version), known)
        if self._folder.is_exclusive:
            self._folder.remove(intent_name(intent.version))
        else:
            # The file stays, so that a process that has just found none cannot record it again.
            self._folder.store(intent_name(intent.version), known)

    def unfinished(self) -> list[Intent]:
        """Return the batches that are recorded and not finished, oldest first."""
        files = self._files()
        done = {each.version for each in files if each.what == "done"}
        versions = {each.version for each in files if each.what == "intent"} - done
        found = [self._folder.load(intent_name(each), Intent) for each in sorted(versions)]
        return [intent for intent in found if intent is not None]

    def sweep(self) -> None:
        """Remove files that are no longer needed, but none that an unfinished batch names."""
        files = self._files()
        done = {each.version for each in files if each.what == "done"}
        pending = {intent.version: intent for intent in self.unfinished()}
        for each in files:
            if self._is_left(each, done, pending):
                self._folder.remove(each.name)
        for name in self._folder.names():
            if name.endswith(".tmp"):
                self._folder.remove(name)
        self._remove_finished(sorted(done))

    def remove_staged(self, names: Sequence[str]) -> None:
        """Remove files of a failed attempt, but none that a recorded batch names."""
        named = {name for intent in self.unfinished() for name in intent.files}
        for name in names:
            if name not in named:
                self._folder.remove(name)

    def is_empty(self) -> bool:
        """Whether nothing is staged or recorded."""
        return not self._files()

    def _is_left(self, found: _Found, done: set[int], pending: Mapping[int, Intent]) -> bool:
        if found.what == "done":
            return False
        if found.version in done:
            return found.what != "intent" or self._folder.is_exclusive
        intent = pending.get(found.version)
        if found.what != "staged":
            return intent is None
        if intent is not None:
            return found.name not in intent.files
        return self._folder.age_s(found.name) > STAGED_AGE_S

    def _remove_finished(self, finished: list[int]) -> None:
        if len(finished) <= 2 * BATCHES_KEPT:
            return
        old = finished[:-BATCHES_KEPT]
        # Before the removal, so that a removed batch is never treated as new.
        self._folder.store(FLOOR, _Floor(old[-1]))
        for version in old:
            self._folder.remove(_done_name(version))
            self._folder.remove(intent_name(version))

    def _files(self) -> list[_Found]:
        found = []
        for name in self._folder.names():
            match = _NAME.fullmatch(name)
            if match is not None:
                found.append(_Found(name, int(match[1]), match[2] or "staged"))
        return found


def staged_name(version: int, unique: str) -> str:
    """Return the name of a file of staged rows."""
    return f"batch-{version}-{unique}.arrow"


def intent_name(version: int) -> str:
    """Return the name of the file of a recorded batch."""
    return f"batch-{version}.intent"


def _done_name(version: int) -> str:
    return f"batch-{version}.done"


def _progress_name(version: int) -> str:
    return f"batch-{version}.progress"
