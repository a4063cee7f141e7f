"""What a reader waits by at the end of a partition, instead of hints. See design 0130."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from strandline._core.core import TailWatch


class PartitionFollower(Protocol):
    """Waits for what comes at the end of a partition, and reads it. For one thread at a time."""

    @property
    def watch(self) -> "TailWatch | None":
        """What an event loop waits for in its place; None if it is for threads alone."""

    def wait(self, start: int, records_max: int, timeout_s: float, /) -> Any:
        """Return the records from `start` on, a list, as soon as there are any.

        None when the time is up, when `wake` was called, or when the reader is to look for
        itself. NotImplemented, with nothing done, if it can follow no longer.
        """

    def wake(self) -> None:
        """End the present wait, or the next one if there is none. From any thread."""
