"""Records that a consumer's predicate leaves out: settled as it passes them."""

from typing import Final

from strandline.subscriptions.acks import Acks
from strandline.subscriptions.assignment import Assignment
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.pages import POLL_S
from strandline.values import LeaseLostError


class PassedOver:
    """Moves a consumer's cursor past records that are never delivered to it.

    If the cursor waited for the next matching record, it would hold back retention, and after a
    restart all the records would be searched again.
    """

    def __init__(self, counting: Counting, acks: Acks, *, is_screened: bool) -> None:
        self._counting = counting
        self._acks = acks
        self.is_screened: Final = is_screened
        """Whether there is a predicate, or a topic with gaps."""
        self.count: int = 0
        """How many records were passed over."""
        self._is_unstored = False
        self._store_at = float("-inf")

    def follow(self, assignment: Assignment) -> None:
        """Settle everything before a subscription's positions, since all of it was delivered."""
        if self.is_screened:
            for partition in assignment.assigned():
                self.note(partition, assignment.position(partition))

    def note(self, partition: int, end: int) -> None:
        """Settle everything before `end` that was not delivered."""
        if not self.is_screened:
            return
        with self._counting.lock:
            outstanding = self._counting.outstanding.get(partition)
            if outstanding is None:
                return
            self.note_locked(outstanding, end)

    def note_gone(self, partition: int, offset: int) -> None:
        """Settle a delivered record that is no longer stored, and needs no ack."""
        with self._counting.lock:
            outstanding = self._counting.outstanding.get(partition)
            if outstanding is not None and outstanding.is_outstanding(offset):
                outstanding.settle([offset])
                self._is_unstored = True

    def note_locked(self, outstanding: Outstanding, end: int) -> None:
        """Do what `note` does, for a caller that holds the lock."""
        before = outstanding.floor
        self.count += outstanding.pass_over(end)
        self._is_unstored |= outstanding.floor > before

    def is_due(self, now: float) -> bool:
        """Whether `store_if_due` would store something."""
        return self._is_unstored and now >= self._store_at

    def store_if_due(self, now: float) -> None:
        """Store cursors that have moved, at most once per POLL_S. May have to wait."""
        if self.is_due(now):
            self._store_at = now + POLL_S
            self._store()

    def _store(self) -> None:
        self._is_unstored = False
        try:
            self._acks.commit()
        except LeaseLostError:
            # The next step finds out what is still held.
            return
        except BaseException:
            self._is_unstored = True
            raise
