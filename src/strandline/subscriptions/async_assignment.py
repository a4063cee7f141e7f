"""The partitions of a subscription, changed from an event loop."""

from typing import Final

from strandline.log.off_loop import closes, off_loop
from strandline.subscriptions.assignment import Assignment


class AsyncAssignment:
    """An `Assignment` with calls to be awaited."""

    def __init__(self, blocking: Assignment) -> None:
        self._blocking = blocking

    @property
    def blocking(self) -> Assignment:
        """The same assignment for threads."""
        return self._blocking

    add: Final = off_loop(Assignment.add)
    remove: Final = off_loop(Assignment.remove)
    assigned: Final = off_loop(Assignment.assigned)
    position: Final = off_loop(Assignment.position)
    places: Final = off_loop(Assignment.places)
    fault: Final = off_loop(Assignment.fault)
    close: Final = closes(Assignment.close)

    def __repr__(self) -> str:
        return f"AsyncAssignment({self._blocking!r})"
