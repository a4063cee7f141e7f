"""A folder of files that Spark has written, there as a whole or not at all.

Spark writes to a folder beside it, `<folder>.partial`, which a job that was killed leaves and
the next run replaces. When all files are durable, with a last one that says which records
they cover, the folder gets its name.
"""

import os
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

import msgspec

from strandline.clock import SystemClock
from strandline.io import Io, SystemIo, real_parent, replace_file
from strandline.spark.jobs.cut import Cut
from strandline.values import InvalidError, UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COVERED_FILE: Final = "_strandline.json"
"""Tells what a folder holds. Spark does not read files that begin with `_`."""

FileFormat = Literal["parquet", "json"]


class Covered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder holds."""

    version: Literal[1]
    job: str
    log_id: UUID
    topic_id: UUID
    topic: str
    tenant: str | None
    #: [start, end) of each partition.
    offsets: dict[int, tuple[int, int]]
    #: What the job was told besides, such as a predicate.
    terms: dict[str, str]
    rows: int

    def same_request(self, other: "Covered") -> bool:
        """Whether both are answers to the same question."""
        return msgspec.structs.replace(self, rows=0) == msgspec.structs.replace(other, rows=0)


def covered_by(cut: Cut, job: str, terms: dict[str, str | None]) -> Covered:
    """Return what a folder of this job would hold, but for its rows."""
    told = {name: text for name, text in terms.items() if text}
    topic = cut.topic
    ends = dict(cut.offsets)
    return Covered(1, job, cut.log_id, topic.id, topic.name, cut.tenant, ends, told, 0)


def load_covered(folder: str) -> Covered | None:
    """Return what a finished folder holds; None if there is none, InvalidError for others."""
    io, path = SystemIo(), os.path.join(folder, COVERED_FILE)
    if not io.exists(folder):
        return None
    try:
        fd = io.open(path, "read")
    except OSError as error:
        raise InvalidError("this exists and is no output of a job", folder=folder) from error
    try:
        return msgspec.json.decode(io.pread(fd, io.size(fd), 0), type=Covered)
    except msgspec.MsgspecError as error:
        raise InvalidError("this exists and is no output of a job", folder=folder) from error
    finally:
        io.close(fd)


class PublishedFolder:
    """A folder that is to be, on a path that all of Spark's processes share."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = real_parent(os.fspath(folder))
        self._partial = f"{self.path}.partial"
        self._io = SystemIo()

    def finished(self, wanted: Covered) -> Covered | None:
        """Return what is there already, if it answers the same; InvalidError for another."""
        found = load_covered(self.path)
        if found is not None and not found.same_request(wanted):
            raise InvalidError(
                "this folder holds something else, choose another or remove it", folder=self.path
            )
        return found

    def write(self, frame: "DataFrame", file_format: FileFormat) -> None:
        """Have Spark write the rows, in the place of what an earlier run may have left."""
        options: dict[str, Any] = {"compression": "zstd"} if file_format == "parquet" else {}
        frame.write.format(file_format).mode("overwrite").options(**options).save(
            f"file://{self._partial}"
        )

    def publish(self, covered: Covered) -> None:
        """Make all of it durable, and give the folder its name."""
        io = self._io
        for name in io.list(self._partial):
            _sync(io, os.path.join(self._partial, name))
        replace_file(
            io,
            os.path.join(self._partial, COVERED_FILE),
            msgspec.json.encode(covered),
            unique=str(SystemClock().new_id()),
        )
        io.sync_directory(self._partial)
        try:
            io.replace(self._partial, self.path)
        except OSError as error:
            raise UnavailableError(
                "another run has made this folder meanwhile", folder=self.path
            ) from error
        io.sync_directory(os.path.dirname(self.path))


def _sync(io: Io, path: str) -> None:
    fd = io.open(path, "read")
    try:
        io.sync(fd)
    finally:
        io.close(fd)
