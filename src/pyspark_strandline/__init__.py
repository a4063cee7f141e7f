"""What Spark looks for by its name: it registers `format("strandline")` by itself."""

from strandline.spark.source import StrandlineSource as DefaultSource

__all__ = ["DefaultSource"]
