"""Topics as Spark tables and streams. The only room that imports pyspark.

Importing it imports no pyspark: what needs it raises when it is called. `source` is what
Spark finds as `format("strandline")`; `listener` keeps consumers in step with queries.
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
