"""A log in one SQLite file, which may be an application's own database.

Promises: the log's contract, up to durable, for any number of processes and threads
of one machine. See design 0020.

Does not promise anything about what others do to the tables `strandline_*`.
"""

from strandline.stores.sqlite.describing import describe_sqlite
from strandline.stores.sqlite.log import SqliteLog

__all__ = ["SqliteLog", "describe_sqlite"]
