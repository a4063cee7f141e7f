"""The only door to the file system.

Files are plain descriptors. Errors are those of the operating system, as they
come: a backend translates them at its own edge.
"""

from strandline.io.files import Buffer, FileStatus, Io, OpenMode, SystemIo, replace_file
from strandline.io.lookout import Lookout

__all__ = ["Buffer", "FileStatus", "Io", "Lookout", "OpenMode", "SystemIo", "replace_file"]
