"""What the predicate of a consumer leaves out: settled as it passes, and stored now and then."""

from typing import Final

from strandline.subscriptions.acks import Acks
from strandline.subscriptions.assignment import Assignment
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.pages import POLL_S
from strandline.values import LeaseLostError


class PassedOver:
    """Moves the cursor of a consumer past records that it is never given.

    A cursor that waited for the next record that matches would hold retention back, and
    after a restart everything would be looked through again.
    """

    def __init__(self, counting: Counting, acks: Acks, *, is_screened: bool) -> None:
        self._counting = counting
        self._acks = acks
        self.is_screened: Final = is_screened
        """Whether there is a predicate at all, or a topic with holes."""
        self.count: int = 0
        """How many records were passed over."""
        self._is_unstored = False
        self._store_at = float("-inf")

    def follow(self, assignment: Assignment) -> None:
        """Note how far a subscription has come, all of whose records were delivered."""
        if self.is_screened:
            for partition in assignment.assigned():
                self.note(partition, assignment.position(partition))

    def note(self, partition: int, end: int) -> None:
        """What was not delivered before `end` never is."""
        if not self.is_screened:
            return
        with self._counting.lock:
            outstanding = self._counting.outstanding.get(partition)
            if outstanding is None:
                return
            self.note_locked(outstanding, end)

    def note_gone(self, partition: int, offset: int) -> None:
        """A record that was delivered is no longer there, and needs no ack."""
        with self._counting.lock:
            outstanding = self._counting.outstanding.get(partition)
            if outstanding is not None and outstanding.is_outstanding(offset):
                outstanding.settle([offset])
                self._is_unstored = True

    def note_locked(self, outstanding: Outstanding, end: int) -> None:
        """Do the same for a caller that holds the lock."""
        before = outstanding.floor
        self.count += outstanding.pass_over(end)
        self._is_unstored |= outstanding.floor > before

    def is_due(self, now: float) -> bool:
        """Whether it is time for `store_if_due` to store something."""
        return self._is_unstored and now >= self._store_at

    def store_if_due(self, now: float) -> None:
        """Store the cursors that have moved, at most once in POLL_S. May have to wait."""
        if self.is_due(now):
            self._store_at = now + POLL_S
            self._store()

    def _store(self) -> None:
        self._is_unstored = False
        try:
            self._acks.commit()
        except LeaseLostError:
            # What is still held is found out at the next step.
            return
        except BaseException:
            self._is_unstored = True
            raise
