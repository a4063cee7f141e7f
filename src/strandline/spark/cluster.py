"""A Spark session on a cluster whose machines need not have Strandline installed."""

import contextlib
import io
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from strandline.clock import SystemClock
from strandline.io import SystemIo, real_path, replace_file
from strandline.spark.java import find_java
from strandline.spark.session import CHECKPOINT_FILE_MANAGER
from strandline.values import InvalidError
from strandline.values.extras import needing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("pyspark_strandline", "strandline")
_ARCHIVE = "strandline.zip"
# The earliest time of the zip format, fixed so that the same code makes the same bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def cluster_session(
    master: str,
    folder: str,
    *,
    name: str = "strandline",
    settings: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Return a session whose executors run the Strandline of this process.

    `folder` must exist; the driver's own files are written below it. The machines of the
    cluster need the same Python version as this process, named by `PYSPARK_PYTHON`, with
    pyarrow, msgspec, google-crc32c and sqlglot, and obstore for a tier; they need the log and
    checkpoints under the same paths as the driver. `settings` are Spark's own and take
    precedence. InvalidError if this process has a session of another master.
    """
    with needing("PySpark", "spark"):
        from pyspark.sql import SparkSession  # noqa: PLC0415 # An extra.
    from strandline.spark.source import StrandlineSource  # noqa: PLC0415 # Needs PySpark.

    os.environ.update(find_java().variables)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    chosen = {
        "spark.local.dir": folder,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILE_MANAGER,
        **(settings or {}),
    }
    archive = write_code(folder)
    builder = SparkSession.builder.master(master).appName(name).config(map=dict(chosen))
    with _on_python_path(archive):
        session = builder.getOrCreate()
    if session.sparkContext.master != master:
        raise InvalidError(
            "this process has a session already, stop it or use another process",
            master=master,
            found=session.sparkContext.master,
        )
    session.sparkContext.addPyFile(archive)
    # A source that Spark discovered is sent to executors without the added files.
    session.dataSource.register(StrandlineSource)
    return session


@contextlib.contextmanager
def _on_python_path(archive: str) -> Iterator[None]:
    """Put the code on the Python path of a Java that starts now.

    The Python processes that plan streams beside the driver do not get added files, and use the
    executors' Python.
    """
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (archive, before)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def write_code(folder: str) -> str:
    """Write the code of this process's Strandline into the folder, and return its path.

    For sessions that are created elsewhere: `--py-files` of `spark-submit`, or `addPyFile`.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for path, source in _sources(resources.files(package), package):
                archive.writestr(zipfile.ZipInfo(path, _NO_TIME), source)
    path = os.path.join(real_path(folder), _ARCHIVE)
    replace_file(SystemIo(), path, content.getvalue(), unique=SystemClock().new_id().hex)
    return path


def _sources(within: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for each in sorted(within.iterdir(), key=lambda found: found.name):
        if each.is_dir():
            yield from _sources(each, f"{path}/{each.name}")
        elif each.name.endswith(".py"):
            yield f"{path}/{each.name}", each.read_bytes()
