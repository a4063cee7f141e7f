"""`format("strandline")`: topics as rows, in batches and in streams.

Promises: each record in [start, end) is read once; micro-batches cover the log without gap or
overlap, after any restart; each option takes effect or raises. Does not promise an order, because
Spark has none.
"""

from strandline.values.extras import needing as _needing

with _needing("PySpark", "spark"):
    import pyspark  # noqa: F401 # Only to say what is missing.

from strandline.spark.source.strandline_source import StrandlineSource

__all__ = ["StrandlineSource"]
