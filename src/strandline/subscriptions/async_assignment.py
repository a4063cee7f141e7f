"""The partitions of a subscription, changed from an event loop."""

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

    add = off_loop(Assignment.add)
    remove = off_loop(Assignment.remove)
    assigned = off_loop(Assignment.assigned)
    position = off_loop(Assignment.position)
    places = off_loop(Assignment.places)
    fault = off_loop(Assignment.fault)
    close = closes(Assignment.close)

    def __repr__(self) -> str:
        return f"AsyncAssignment({self._blocking!r})"
