"""`format("strandline")`: topics as rows, in batches and in streams.

Promises: each record in [start, end) once; micro-batches tile the log, after any restart;
what an option says is done or refused. Does not promise an order: Spark has none.
"""

from strandline.spark.source.strandline_source import StrandlineSource

__all__ = ["StrandlineSource"]
