"""Object stores that a Spark session can read without the source."""

import logging
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_logger = logging.getLogger("strandline")

#: The Maven package that Spark needs for a scheme; those of Hadoop have Hadoop's version.
_JARS: Final = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}


def has_file_system(spark: SparkSession, scheme: str) -> bool:
    """Return whether Spark can read URLs of this scheme; a warning names a missing package."""
    if scheme == "file":
        return True
    java: Any = getattr(spark, "_jvm", None)
    if java is None:
        return False  # It is unknown what a remote Spark can read.
    hadoop = java.org.apache.hadoop
    try:
        hadoop.fs.FileSystem.getFileSystemClass(scheme, spark._jsc.hadoopConfiguration())  # noqa: SLF001
    except Py4JJavaError:
        if scheme in _JARS:
            jar = _JARS[scheme].format(hadoop=hadoop.util.VersionInfo.getVersion())
            _logger.warning(
                "this Spark cannot read %s:// by itself, so the tier is read by the source, "
                "which is slower; spark.jars.packages=%s adds this file system",
                scheme,
                jar,
            )
        return False
    return True
