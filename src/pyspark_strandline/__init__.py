"""Registers `format("strandline")`: Spark finds this module by its name."""

from strandline.spark.source import StrandlineSource as DefaultSource

__all__ = ["DefaultSource"]
