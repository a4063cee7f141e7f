"""Scans: the rows of a topic, hot and cold, for SQL engines and data frames.

Promises: the rows of a scan are those that `log.read_batches` returns from the low-water
mark to the ends of the partitions when the scan was made; each read of it returns the same
rows. Columns and filters are pushed down, into Parquet for records of the tier.

Does not wait for records, and does not delay retention: a scan that a trim has overtaken
raises TrimmedError.
"""

from strandline.scans.scanning import ScanOptions, scan

__all__ = ["ScanOptions", "scan"]
