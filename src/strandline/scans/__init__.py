"""Scans: the rows of a topic for SQL engines and data frames, hot and cold as one.

Promises: the rows of a scan are those that `log.read_batches` returns from the low-water
mark on, as far as the partitions reached when the scan was made; each read of it gives the
same rows. Columns and filters are pushed down: into Parquet, where the tier has the records.

Does not wait for records, and holds no retention back: a scan that a trim has overtaken
raises TrimmedError.
"""

from strandline.scans.scanning import ScanOptions, scan

__all__ = ["ScanOptions", "scan"]
