"""Claims as file locks: visible to all processes, and released when their process ends."""

import contextlib
import os
import weakref

from strandline.io import Io
from strandline.log.claims import ConsumerPlace, claimed, host_name
from strandline.stores.open_file import OpenFile
from strandline.values.prompt import prompt_text

_HOLDER_BYTES_MAX = 300


class LockClaim:
    """Implements Claim. Releasing removes the file; it stays only after a kill."""

    def __init__(self, io: Io, file: OpenFile) -> None:
        self._io = io
        self._file: OpenFile | None = file
        self._pid = os.getpid()

    def __repr__(self) -> str:
        file = self._file
        return prompt_text("Claim", None if file is None else file.path, released=file is None)

    def release(self) -> None:
        """See Claim."""
        file, self._file = self._file, None
        # A file of the parent process is not ours to remove.
        if file is not None and os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                if file.is_in_place():
                    self._io.unlink(file.path)
            file.close()


class LockClaims:
    """The claims that one open log holds. Thread-safe."""

    def __init__(self, io: Io) -> None:
        self._io = io
        self._held: weakref.WeakSet[LockClaim] = weakref.WeakSet()

    def take(self, path: str, place: ConsumerPlace) -> LockClaim:
        """Return a claim on the file, which is created; UnavailableError if it is held."""
        while True:
            file = OpenFile(self._io, path, "create")
            try:
                is_locked = self._io.try_lock(file.fd)
                if file.is_in_place():
                    if not is_locked:
                        raise claimed(place, *self._holder(file))
                    self._io.truncate(file.fd, 0)
                    self._io.pwrite(file.fd, f"{os.getpid()} {host_name()}\n".encode(), 0)
                    claim = LockClaim(self._io, file)
                    self._held.add(claim)
                    return claim
            except BaseException:
                file.close()
                raise
            # The holder has just removed it.
            file.close()

    def close(self) -> None:
        """Release every claim."""
        for claim in tuple(self._held):
            claim.release()

    def _holder(self, file: OpenFile) -> tuple[int | None, str | None]:
        text = self._io.pread(file.fd, _HOLDER_BYTES_MAX, 0)
        pid, _, host = text.decode(errors="replace").strip().partition(" ")
        return (int(pid), host) if pid.isdecimal() else (None, None)
