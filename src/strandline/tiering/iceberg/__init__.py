"""The tier of a topic as an Iceberg table, in a catalogue that the user names.

Promises what the Delta table does (see `delta`): one run of finished copies without a gap of
each partition, each once; an object leaves the table before it is deleted from the tier; a
record is in the table before the log evicts it; the table is restored if another program has
changed it. Does not write objects, and a log never reads it: the segment catalogue is
authoritative. See design 0136.
"""

from strandline.tiering.iceberg.place import check_name, require_pyiceberg
from strandline.tiering.iceberg.publishing import check_place, drop, publish

__all__ = ["check_name", "check_place", "drop", "publish", "require_pyiceberg"]
