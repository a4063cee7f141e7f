"""Ready jobs over whole topics: `strandline.spark.jobs.audit(spark, url, …)` and others.

Promises: what a job writes is there as a whole or not at all; a job that was stopped, or
killed, is run again and ends in the same state. Topics are never rewritten. Does not start
or end a Spark session, and leaves its settings alone.
"""

from strandline.values import InvalidError

try:
    import pyspark as _pyspark  # noqa: F401 # An extra, named here for all jobs at once.
except ImportError as error:
    raise InvalidError("PySpark is missing: pip install strandline[spark]") from error

from strandline.spark.jobs.auditing import AuditFinding, AuditReport, audit

__all__ = ["AuditFinding", "AuditReport", "audit"]
