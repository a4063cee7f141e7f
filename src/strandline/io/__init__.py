"""The only module that accesses the file system.

Files are plain descriptors. Errors of the operating system are raised unchanged; a store
translates them.
"""

from strandline.io.file_watcher import FileWatcher
from strandline.io.files import (
    Buffer,
    FileStatus,
    Io,
    OpenMode,
    SystemIo,
    place_file,
    replace_file,
)
from strandline.io.machine import (
    FileSystem,
    InotifyLimits,
    file_system_of,
    has_shared_memory,
    inotify_limits,
    may_write_in,
    private_directory,
    real_parent,
    real_path,
    refusal_of,
)

__all__ = [
    "Buffer",
    "FileStatus",
    "FileSystem",
    "FileWatcher",
    "InotifyLimits",
    "Io",
    "OpenMode",
    "SystemIo",
    "file_system_of",
    "has_shared_memory",
    "inotify_limits",
    "may_write_in",
    "place_file",
    "private_directory",
    "real_parent",
    "real_path",
    "refusal_of",
    "replace_file",
]
