"""The files by which the Spark driver and its parent find each other's work."""

JOINING, SUMMING = "joining", "summing"
#: There once every event was offered.
ALL_OFFERED = "all-offered"
#: There once both streams have begun.
READY = "spark-is-ready"
COUNTED = "counted.json"
REVENUE = "revenue"
SPARK_LOG = "spark.log"
