"""The Spark session that a command uses."""

import contextlib
import os
import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory  # noqa: TID251 For temporary files of Spark.
from typing import Annotated, Any, TypeAlias

import typer

from strandline.cli.options import opened
from strandline.cli.screen import note
from strandline.values import Mode

Master: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Where Spark runs: local[*] is this machine, spark://host:7077 others, "
        "sc://host:15002 a Spark Connect server; without it SPARK_REMOTE, then local[*].",
    ),
]
LOCAL = "local[*]"
_REMOTE = "SPARK_REMOTE"
_OUTPUT_BYTES_MAX = 64 * 1024


@contextlib.contextmanager
def session(master: str, url: str | None) -> Iterator[Any]:
    """Start Spark, and stop it afterwards; an existing session of this process is used and kept.

    For a Spark Connect server, opens a session there, whose Java runs already. Because that
    takes seconds, checks first that the log exists: InvalidError if not.
    """
    opened(url, Mode.READ).close()
    from strandline.spark import local_session, remote_session  # noqa: PLC0415 Takes long to import.

    remote = os.environ.get(_REMOTE) if master == LOCAL else master
    if remote and remote.startswith("sc://"):
        spark = remote_session(remote)
        try:
            yield spark
        finally:
            spark.stop()
        return
    with TemporaryDirectory(prefix="strandline-spark-") as folder:
        is_ours = not _has_session()
        if sys.stderr.isatty():
            note("starting Spark …")
        with _java_output_to(os.path.join(folder, "java.log")):
            spark = local_session(folder, master=master)
        try:
            yield spark
        finally:
            if is_ours:
                spark.stop()


@contextlib.contextmanager
def _java_output_to(path: str) -> Iterator[None]:
    """Redirect the standard error of a Java process that is started meanwhile to a file.

    Errors are raised as exceptions; if Java does not even start, its output is in that file.
    """
    kept = os.dup(2)  # noqa: TID251 No file of a log.
    output = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)  # noqa: TID251 Java's output.
    os.dup2(output, 2)  # noqa: TID251 The same.
    try:
        yield
    except BaseException:
        os.write(kept, os.pread(output, _OUTPUT_BYTES_MAX, 0))  # noqa: TID251 The same.
        raise
    finally:
        os.dup2(kept, 2)  # noqa: TID251 The same.
        os.close(kept)  # noqa: TID251 The same.
        os.close(output)  # noqa: TID251 The same.


def _has_session() -> bool:
    loaded = sys.modules.get("pyspark.sql")
    return loaded is not None and loaded.SparkSession.getActiveSession() is not None
