"""A log in one SQLite file, which may be an application's own database.

Promises: the port of `log`, up to durable, for any number of processes and threads
of one machine. See design 0020.

Does not promise anything about other programs' changes to the tables `strandline_*`.
"""

from strandline.stores.sqlite.copying import copy_sqlite_log
from strandline.stores.sqlite.describing import describe_sqlite
from strandline.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "copy_sqlite_log", "describe_sqlite"]
