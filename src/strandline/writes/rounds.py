"""Rounds of work, which one thread at a time does for all."""

from __future__ import annotations

import threading
from typing import Final, Protocol

from strandline.locks import Acquirable


class Leadership(Acquirable, Protocol):
    """Held by the thread that works: what `threading.Lock` makes, or the core."""

    def release(self) -> None:
        """Let another thread work."""

    def locked(self) -> bool:
        """Whether a thread works."""


class Rounds(Protocol):
    """Counts the rounds that began and that ended, and has one thread at a time do one."""

    @property
    def begun(self) -> int:
        """How many rounds have begun."""

    @property
    def ended(self) -> int:
        """The last round that has ended well."""

    @property
    def sync_s(self) -> float:
        """Seconds of rounds that were done in `wait`."""

    @property
    def busy(self) -> Leadership:
        """Held by the working thread, until it releases leadership."""

    def begin(self) -> None:
        """Begin a round, as the holder of `busy`."""

    def end(self) -> None:
        """End the round that has begun."""

    def wait(self, turn: int, /) -> bool:
        """Return True once round `turn` has ended; False at once where that takes Python."""

    def close(self) -> None:
        """Let no thread wait any more."""

    def renew(self) -> None:
        """Reset the worker: in a forked child there is none."""


class PlainRounds:
    """Implements Rounds. The core has another, in which threads wait without the interpreter."""

    __slots__ = ("begun", "busy", "ended")

    sync_s: Final = 0.0

    def __init__(self) -> None:
        self.begun: int = 0
        self.ended: int = 0
        self.busy: threading.Lock = threading.Lock()

    def begin(self) -> None:
        self.begun += 1

    def end(self) -> None:
        self.ended = self.begun

    def wait(self, turn: int, /) -> bool:  # noqa: ARG002 - Python waits by the stage.
        return False

    def close(self) -> None:
        pass

    def renew(self) -> None:
        self.busy = threading.Lock()
