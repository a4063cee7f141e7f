"""Waiting for new records at the end of a partition, without hints. See design 0130."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from strandline._core.core import TailWatch


class PartitionFollower(Protocol):
    """Waits for new records at the end of a partition and reads them. For one thread at a time."""

    @property
    def watch(self) -> "TailWatch | None":
        """What an event loop waits on instead of calling `wait`; None if only threads can wait."""

    def wait(self, start: int, records_max: int, timeout_s: float, /) -> Any:
        """Return a list of the records from `start` on, as soon as there are any.

        None when the time is up, when `wake` was called, or when the reader must read by the
        usual way. NotImplemented, with nothing done, if this can follow the partition no longer.
        """

    def wake(self) -> None:
        """End the current wait early, or the next one if there is none. From any thread."""
