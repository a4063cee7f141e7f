"""A folder of files written by Spark, which appears as a whole or not at all.

Spark writes to a folder beside it, `<folder>.partial`. A killed job leaves that folder, and the
next run replaces it. Once all files are durable, including a last one that lists which records
they cover, the folder is renamed.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

import msgspec

from strandline.clock import SystemClock
from strandline.io import Io, SystemIo, real_parent, replace_file
from strandline.spark.causes import job_failed, text_of
from strandline.spark.jobs.cut import Cut
from strandline.values import InvalidError, UnavailableError
from strandline.values.arguments import check_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COVERED_FILE: Final = "_strandline"
"""The file that lists the contents of a folder. Spark does not read files that begin with `_`,
and without an extension other programs do not read it as data."""
_EARLIER_COVERED_FILE: Final = "_strandline.json"
_TIMES: Final = "spark.sql.parquet.outputTimestampType"

FileFormat = Literal["parquet", "json"]


class Covered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a folder."""

    version: Literal[1]
    job: str
    log_id: UUID
    topic_id: UUID
    topic: str
    tenant: str | None
    #: [start, end) of each partition.
    offsets: dict[int, tuple[int, int]]
    #: The job's other arguments, such as a predicate.
    terms: dict[str, str]
    rows: int

    def same_request(self, other: "Covered") -> bool:
        """Whether both are outputs of the same call."""
        return msgspec.structs.replace(self, rows=0) == msgspec.structs.replace(other, rows=0)


def covered_by(cut: Cut, job: str, terms: dict[str, str | None]) -> Covered:
    """Return the description of this job's folder, without the number of rows."""
    given = {name: text for name, text in terms.items() if text}
    topic = cut.topic
    ends = dict(cut.offsets)
    return Covered(1, job, cut.log_id, topic.id, topic.name, cut.tenant, ends, given, 0)


def load_covered(folder: str | os.PathLike[str]) -> Covered | None:
    """Return the contents of a finished folder; None if none exists, InvalidError for others."""
    io = SystemIo()
    folder = check_path("folder", folder)
    if not io.exists(folder):
        return None
    paths = [os.path.join(folder, name) for name in (COVERED_FILE, _EARLIER_COVERED_FILE)]
    try:
        fd = io.open(next(filter(io.exists, paths), paths[0]), "read")
    except OSError as error:
        raise InvalidError("this exists and is no output of a job", folder=folder) from error
    try:
        return msgspec.json.decode(io.pread(fd, io.size(fd), 0), type=Covered)
    except msgspec.MsgspecError as error:
        raise InvalidError("this exists and is no output of a job", folder=folder) from error
    finally:
        io.close(fd)


class PublishedFolder:
    """A folder to be published, on a path that all of Spark's processes share."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path: Final = real_parent(os.fspath(folder))
        self._partial = f"{self.path}.partial"
        self._io = SystemIo()

    def finished(self, wanted: Covered) -> Covered | None:
        """Return an existing folder's contents; InvalidError if another call has written it."""
        found = load_covered(self.path)
        if found is not None and not found.same_request(wanted):
            raise InvalidError(
                "this folder holds something else, choose another or remove it", folder=self.path
            )
        return found

    def write(self, frame: "DataFrame", file_format: FileFormat) -> None:
        """Write the rows with Spark, and replace files that an earlier run has left."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415 # An extra, as py4j.

        options: dict[str, Any] = {"compression": "zstd"} if file_format == "parquet" else {}
        writer = frame.write.format(file_format).mode("overwrite").options(**options)
        try:
            with _plain_times(frame.sparkSession):
                writer.save(f"file://{self._partial}")
        except (PySparkException, Py4JJavaError) as error:
            raise job_failed(text_of(error)) from error

    def publish(self, covered: Covered) -> None:
        """Make all files durable, and rename the folder to its final name."""
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


_plain_times_lock = threading.Lock()
_plain_times_users: dict[int, tuple[int, str | None]] = {}


@contextlib.contextmanager
def _plain_times(spark: "SparkSession") -> Iterator[None]:
    """Make Spark write times in a type that other programs read, not as INT96.

    It is a setting of the session, which several jobs may share.
    """
    with _plain_times_lock:
        users, before = _plain_times_users.get(id(spark), (0, spark.conf.get(_TIMES, None)))
        _plain_times_users[id(spark)] = users + 1, before
        spark.conf.set(_TIMES, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        with _plain_times_lock:
            users, _ = _plain_times_users.pop(id(spark))
            if users > 1:
                _plain_times_users[id(spark)] = users - 1, before
            elif before is None:
                spark.conf.unset(_TIMES)
            else:
                spark.conf.set(_TIMES, before)


def _sync(io: Io, path: str) -> None:
    fd = io.open(path, "read")
    try:
        io.sync(fd)
    finally:
        io.close(fd)
