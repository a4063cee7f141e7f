"""The terms with which a checkpoint was begun: a run with other terms would mix two results."""

import contextlib
import os
from typing import Final

import msgspec

from strandline.clock import SystemClock
from strandline.io import Io, SystemIo, real_path, replace_file
from strandline.values import CorruptError, InvalidError

_FILE: Final = "_strandline"
#: The folder in which Spark stores an entry before it begins a batch.
_BATCHES: Final = "offsets"
_LOCAL_FILES: Final = "file://"


class KeptTerms:
    """The terms of the job that a checkpoint belongs to, in a file of the checkpoint's folder.

    A checkpoint outside the file system of this machine has no such file.
    """

    def __init__(self, checkpoint: str, job: str, **terms: str | None) -> None:
        path = checkpoint.removeprefix(_LOCAL_FILES)
        self._folder: str | None = None if "://" in path else real_path(path)
        self._checkpoint = checkpoint
        self._terms = {"job": job} | {name: text.strip() for name, text in terms.items() if text}
        self._io: Io = SystemIo()

    def keep(self) -> None:
        """Store the terms, if there are none yet.

        InvalidError if batches were begun with other terms. A checkpoint of an earlier version
        has no terms, or none for the log: it is assumed to have these.
        """
        if self._folder is None:
            return
        path = os.path.join(self._folder, _FILE)
        known = self._load(path)
        if known == self._terms:
            return
        if known is not None and "log" in self._terms:
            known.setdefault("log", self._terms["log"])
        if known not in (None, self._terms) and self._has_begun(self._folder):
            name = min(n for n in known | self._terms if known.get(n) != self._terms.get(n))
            raise InvalidError(
                f"this checkpoint was begun with another {name}: run the job as before, or name a"
                " new checkpoint, with which everything is appended from the beginning",
                checkpoint=self._checkpoint,
                before=known.get(name, ""),
                now=self._terms.get(name, ""),
            )
        self._make(self._folder)
        content = msgspec.json.encode(self._terms)
        replace_file(self._io, path, content, unique=str(SystemClock().new_id()))

    def _make(self, folder: str) -> None:
        if not self._io.exists(folder):
            self._make(os.path.dirname(folder))
            with contextlib.suppress(FileExistsError):
                self._io.mkdir(folder)

    def _has_begun(self, folder: str) -> bool:
        try:
            return bool(self._io.list(os.path.join(folder, _BATCHES)))
        except FileNotFoundError:
            return False

    def _load(self, path: str) -> dict[str, str] | None:
        if not self._io.exists(path):
            return None
        fd = self._io.open(path, "read")
        try:
            return msgspec.json.decode(
                self._io.pread(fd, self._io.size(fd), 0), type=dict[str, str]
            )
        except msgspec.MsgspecError as error:
            raise CorruptError(
                "this file of a checkpoint cannot be read, delete it to continue with other terms",
                file=path,
                position=0,
            ) from error
        finally:
            self._io.close(fd)
