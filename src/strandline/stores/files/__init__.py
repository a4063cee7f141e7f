"""`file:`: a log in a directory, for any number of processes of one machine."""

from strandline.stores.files.log import FileLog

__all__ = ["FileLog"]
