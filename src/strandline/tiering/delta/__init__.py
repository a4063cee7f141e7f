"""The tier of a topic as a Delta table: a transaction log over the objects that are there.

Promises: the table has, of each partition, one run of finished copies without a gap, each
once, as the segment catalogue has them; a commit is whole or not there; what is deleted
from the tier has left the table before, and what the log evicts is in it before. Lost or
changed by another program, it is made again from the catalogue.

Does not write objects, and is never read by a log: the catalogue stays the truth.
"""

from strandline.tiering.delta.checkpoints import require_deltalake
from strandline.tiering.delta.publishing import check_columns, has_table, publish

__all__ = ["check_columns", "has_table", "publish", "require_deltalake"]
