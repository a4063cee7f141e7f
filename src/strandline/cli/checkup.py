"""Checks what a machine has and lacks for a log, and what to do about it."""

import importlib.metadata
import platform
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from strandline._core import CORE, IS_COMPILED
from strandline.io import FileSystem, InotifyLimits, file_system_of, inotify_limits
from strandline.values import StrandlineError
from strandline.values.extras import install_command

_PYTHON_MIN = (3, 11)
_PYARROW_MIN = 22
_SQLITE_MIN = (3, 35, 0)
_SQLITE_SOUND = (3, 51, 3)
_FREE_BYTES_MIN = 1 << 30
_WATCHES_MIN = 8192
_INSTANCES_MIN = 128
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"}
_VOLATILE = {"tmpfs", "ramfs"}


class CheckResult(StrEnum):
    """The result of one check."""

    OK = "ok"
    ABSENT = "absent"
    """Not installed, and only needed for a feature."""
    WARNING = "warning"
    FAILED = "failed"


class Finding(NamedTuple):
    """A result, with what was found and what to do."""

    check: str
    verdict: CheckResult
    found: str
    advice: str
    """What to do; empty if nothing."""


class LogPlace(NamedTuple):
    """A directory where a log is, or is going to be."""

    path: str
    file_system: FileSystem
    inotify: InotifyLimits | None


def place_at(path: str) -> LogPlace:
    """Return the file system and limits of a directory."""
    return LogPlace(path, file_system_of(path), inotify_limits())


def is_healthy(findings: Iterable[Finding]) -> bool:
    """Whether a log would work here."""
    return all(each.verdict is not CheckResult.FAILED for each in findings)


def look(place: LogPlace) -> Iterator[Finding]:
    """Yield findings about this machine, for a log at `place`."""
    yield _python()
    yield _system()
    yield _core()
    yield _pyarrow()
    yield _checksums()
    yield _sqlite()
    yield from _file_system(place.path, place.file_system)
    yield _inotify(place.inotify)
    yield _java()
    yield _extra("pyspark", "spark", "Spark over a log")
    yield _extra("obstore", "tiering", "tiering to an object store")
    yield _extra("psycopg", "postgres", "a log in PostgreSQL")
    yield _extra("nats-py", "nats", "a log on NATS JetStream")
    yield _extra("confluent-kafka", "kafka", "a log on Kafka")
    yield _extra("duckdb", "server", "SQL of a served log, and scans")
    yield _extra("rich", "cli", "progress bars")


def look_at_server(url: str) -> Iterator[Finding]:
    """Yield findings about the server that has the log."""
    from strandline.opening import examine  # noqa: PLC0415 Takes long to import.

    for check, verdict, found, advice in examine(url):
        yield Finding(check, CheckResult(verdict), found, advice)


def _python() -> Finding:
    found = platform.python_version()
    if sys.version_info < _PYTHON_MIN:
        return Finding("python", CheckResult.FAILED, found, "install Python 3.11 or newer")
    return Finding("python", CheckResult.OK, found, "")


def _system() -> Finding:
    found = f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() == "Windows":
        return Finding(
            "system", CheckResult.FAILED, found, "use Linux or macOS; on Windows use WSL 2"
        )
    return Finding("system", CheckResult.OK, found, "")


def _core() -> Finding:
    if IS_COMPILED:
        return Finding("core", CheckResult.OK, CORE, "")
    advice = "appends and reads are several times slower"
    if "built" in CORE:
        advice += ": install a C compiler, then Strandline again; in a clone, make setup"
    return Finding("core", CheckResult.ABSENT, CORE, advice)


def _pyarrow() -> Finding:
    found = importlib.metadata.version("pyarrow")
    if int(found.split(".")[0]) < _PYARROW_MIN:
        advice = f"pip install 'pyarrow>={_PYARROW_MIN}'"
        return Finding("pyarrow", CheckResult.FAILED, found, advice)
    return Finding("pyarrow", CheckResult.OK, found, "")


def _checksums() -> Finding:
    import google_crc32c  # noqa: PLC0415 Only for its version.

    found = f"google-crc32c, {google_crc32c.implementation}"
    if google_crc32c.implementation != "c":
        return Finding(
            "checksums",
            CheckResult.WARNING,
            found,
            "it runs in Python, about 100 times slower: install a wheel of google-crc32c",
        )
    return Finding("checksums", CheckResult.OK, found, "")


def _sqlite() -> Finding:
    found, version = sqlite3.sqlite_version, sqlite3.sqlite_version_info
    if version < _SQLITE_MIN:
        return Finding(
            "sqlite", CheckResult.FAILED, found, "sqlite: logs need SQLite 3.35 or newer"
        )
    if version < _SQLITE_SOUND:
        return Finding(
            "sqlite",
            CheckResult.OK,
            found,
            "an application's own connections to a log's database should set "
            "wal_autocheckpoint = 0 (SQLite before 3.51.3, design 0020)",
        )
    return Finding("sqlite", CheckResult.OK, found, "")


def _file_system(path: str, found: FileSystem) -> Iterator[Finding]:
    kind = found.kind or "unknown"
    shown = f"{kind} at {path}"
    if kind in _NETWORK:
        yield Finding(
            "file system",
            CheckResult.FAILED,
            shown,
            "locks and inotify do not reach other machines: keep the log on a local disk",
        )
    elif kind in _VOLATILE:
        yield Finding(
            "file system", CheckResult.WARNING, shown, "it is in memory, and lost at a restart"
        )
    else:
        yield Finding("file system", CheckResult.OK, shown, "")
    if not found.is_writable:
        yield Finding(
            "permission", CheckResult.FAILED, f"{path} is not writable", "choose another place"
        )
    free = f"{found.free_bytes / (1 << 30):,.1f} GiB free"
    is_low = found.free_bytes < _FREE_BYTES_MIN
    advice = "make room, or give topics a retention and trim them" if is_low else ""
    yield Finding("space", CheckResult.WARNING if is_low else CheckResult.OK, free, advice)


def _inotify(limits: InotifyLimits | None) -> Finding:
    if limits is None:
        advice = "followers of other processes poll, at least every 50 ms"
        return Finding("inotify", CheckResult.ABSENT, "none", advice)
    found = f"{limits.watches:,} watches, {limits.instances:,} instances"
    if limits.watches < _WATCHES_MIN or limits.instances < _INSTANCES_MIN:
        advice = (
            f"sysctl fs.inotify.max_user_watches={_WATCHES_MIN} "
            f"fs.inotify.max_user_instances={_INSTANCES_MIN}, or followers poll"
        )
        return Finding("inotify", CheckResult.WARNING, found, advice)
    return Finding("inotify", CheckResult.OK, found, "")


def _java() -> Finding:
    from strandline.spark.java import find_java  # noqa: PLC0415 Only for its version.

    try:
        java = find_java()
    except StrandlineError as error:
        return Finding("java", CheckResult.ABSENT, "none that Spark can use", str(error))
    return Finding("java", CheckResult.OK, f"{java.major} from {java.origin}", "")


def _extra(package: str, extra: str, purpose: str) -> Finding:
    try:
        return Finding(package, CheckResult.OK, importlib.metadata.version(package), "")
    except importlib.metadata.PackageNotFoundError:
        advice = f"for {purpose}: {install_command(extra)}"
        return Finding(package, CheckResult.ABSENT, "not installed", advice)
