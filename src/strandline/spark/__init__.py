"""Topics as Spark tables and streams. The only room that imports pyspark.

Importing this package does not import pyspark: functions that need it raise when they are called
without it. `source` implements `format("strandline")`; `listener` moves consumers as queries
make progress.
"""

from strandline.spark.cluster import cluster_session
from strandline.spark.finishing import finish_writes
from strandline.spark.java import JAVA_MAJOR_MIN, Java, find_java
from strandline.spark.registering import register
from strandline.spark.session import local_session, prepare_environment, remote_session
from strandline.spark.topic_table import table

__all__ = [
    "JAVA_MAJOR_MIN",
    "Java",
    "cluster_session",
    "find_java",
    "finish_writes",
    "local_session",
    "prepare_environment",
    "register",
    "remote_session",
    "table",
]
