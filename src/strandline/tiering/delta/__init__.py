"""The tier of a topic as a Delta table: a transaction log over the existing objects.

Promises: the table has, of each partition, one run of finished copies without a gap, each
once, as in the segment catalogue. A commit is atomic. An object leaves the table before it is
deleted from the tier, and a record is in the table before the log evicts it. If the table is
lost or changed by another program, it is rebuilt from the catalogue.
Does not write objects, and a log never reads it: the catalogue is authoritative.
"""

from strandline.tiering.delta.checkpoints import require_deltalake
from strandline.tiering.delta.publishing import has_table, publish

__all__ = ["has_table", "publish", "require_deltalake"]
