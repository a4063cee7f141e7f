"""`file:`: a log in a directory, for any number of processes of one machine."""

from strandline.stores.files.copying import copy_file_log
from strandline.stores.files.store import FileStore

__all__ = ["FileStore", "copy_file_log"]
