"""Topics as Spark tables and streams. The only room that speaks pyspark.

Importing it imports no pyspark: what needs it says so when it is called.
"""

from strandline.spark.java import JAVA_MAJOR_MIN, Java, find_java
from strandline.spark.session import local_session, prepare_environment

__all__ = ["JAVA_MAJOR_MIN", "Java", "find_java", "local_session", "prepare_environment"]
