"""A local Spark session that needs no configuration."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from strandline.spark.java import find_java
from strandline.values import InvalidError
from strandline.values.arguments import check_text
from strandline.values.extras import needing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_HERE = os.path.dirname(os.path.abspath(__file__))
_LOGGING = os.path.join(_HERE, "log4j2.properties")
_PYTHON = os.path.join(_HERE, "python_home", "bin", "python")
_QUIET = f'"-Dlog4j2.configurationFile=file://{quote(_LOGGING)}"'


def local_session(
    folder: str,
    *,
    name: str = "strandline",
    master: str = "local[2]",
    heap: str = "1g",
    java_options: str = "",
    settings: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Return a new session, or the existing one of this process.

    Spark's own files are written below `folder`, which must exist. Spark runs on the Java that
    `find_java` finds, uses only the loopback address, the time zone UTC and no web pages, and
    logs only errors unless `setLogLevel` changes that. `settings` are Spark's own and take
    precedence.
    """
    with needing("PySpark", "spark"):
        from pyspark.sql import SparkSession  # noqa: PLC0415 # An extra.
    from strandline.spark.source import StrandlineSource  # noqa: PLC0415 # Needs PySpark.

    if any(each in folder for each in ',"'):
        # Spark would read it as several folders, or as the end of an option.
        raise InvalidError("a folder for Spark has no comma and no quote", folder=folder)
    os.environ.update(_pythons(master, os.environ))
    prepare_environment()
    chosen = {
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": " ".join(
            [*java_options.split(), f'"-Dderby.system.home={folder}"', _QUIET]
        ),
        "spark.local.dir": folder,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # The default implementation starts about twenty processes for each micro-batch.
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILE_MANAGER,
        **(settings or {}),
    }
    builder = SparkSession.builder.master(master).appName(name)
    session = builder.config(map=dict(chosen)).getOrCreate()
    # Spark does not discover the source if the path of Python has a space in it.
    session.dataSource.register(StrandlineSource)
    return session


def remote_session(url: str) -> "SparkSession":
    """Return a session of a running Spark Connect server, `sc://host:port`, in UTC.

    The server's Python must have Strandline and access to the log. InvalidError without PySpark,
    and for any other URL.
    """
    with needing("PySpark", "spark"):
        from pyspark.sql import SparkSession  # noqa: PLC0415 # An extra.
    from strandline.spark.source import StrandlineSource  # noqa: PLC0415 # Needs PySpark.

    if not check_text("url", url).startswith("sc://"):
        raise InvalidError("a Spark Connect server is named sc://host:port", url=url)
    session = SparkSession.builder.remote(url).getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.dataSource.register(StrandlineSource)
    return session


def _pythons(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return settings with which Spark's Python processes import pyspark as installed.

    Only on this machine, and if neither another Python nor another Spark is configured.
    """
    names = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"
    is_chosen = any(name in environment for name in (*names, "SPARK_HOME"))
    if is_chosen or not master.startswith("local"):
        return {}
    return {**dict.fromkeys(names, _PYTHON), "STRANDLINE_PYTHON": sys.executable}


CHECKPOINT_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def prepare_environment() -> None:
    """Set the Java, the Python and the address that Spark uses, in this process's environment.

    Variables that are set already stay, except a Java that Spark cannot use.
    """
    os.environ.update(find_java().variables)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Otherwise Spark would not start on a machine whose own name does not resolve.
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
