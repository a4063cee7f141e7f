"""Scans: the rows of a topic for SQL engines and data frames, from store and tier together.

Promises: the rows of a scan are those that `log.read_batches` returns, from the low-water mark
to the partitions' ends when the scan was made; each read of it gives the same rows. Columns
and filters are pushed down: into Parquet, if the tier has the records.

Does not wait for records, and does not hold back retention: a scan that a trim has overtaken
raises TrimmedError.
"""

from strandline.scans.scanning import ScanOptions, scan

__all__ = ["ScanOptions", "scan"]
