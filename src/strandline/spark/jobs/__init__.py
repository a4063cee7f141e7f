"""Ready jobs over whole topics: `strandline.spark.jobs.audit(spark, url, …)` and others.

Promises: the output of a job appears as a whole or not at all; a job that was stopped or killed
can be run again and ends in the same state. Topics are never rewritten. Does not start or end a
Spark session, and does not change its settings.
"""

from strandline.values import InvalidError as _InvalidError
from strandline.values.extras import missing as _missing

try:
    import pyspark  # noqa: F401 # Only to say what is missing.
except ImportError as _error:
    raise _InvalidError(_missing("PySpark", "spark")) from _error

from strandline.spark.jobs.auditing import AuditFinding, AuditReport, audit
from strandline.spark.jobs.backfilling import backfill
from strandline.spark.jobs.deriving import derive
from strandline.spark.jobs.exporting import FolderReport, export, snapshot
from strandline.spark.jobs.flowing import FlowReport
from strandline.spark.jobs.progress import Progress
from strandline.spark.jobs.published_folder import Covered, load_covered
from strandline.spark.jobs.rebuilding import RebuildReport, rebuild
from strandline.spark.jobs.tiering_job import TierJobReport, tier

__all__ = [
    "AuditFinding",
    "AuditReport",
    "Covered",
    "FlowReport",
    "FolderReport",
    "Progress",
    "RebuildReport",
    "TierJobReport",
    "audit",
    "backfill",
    "derive",
    "export",
    "load_covered",
    "rebuild",
    "snapshot",
    "tier",
]
