"""What the Spark driver and whoever started it find each other's work by."""

JOINING, SUMMING = "joining", "summing"
#: There once every event was offered.
ALL_OFFERED = "all-offered"
#: There once both streams have begun.
READY = "spark-is-ready"
COUNTED = "counted.json"
REVENUE = "revenue"
SPARK_LOG = "spark.log"
