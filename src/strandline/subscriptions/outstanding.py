"""What a consumer was given of one partition and has not dealt with: pure, no I/O.

Invariant: everything before `floor` is dealt with, and the record at `floor` is not. So a
cursor stored at `floor` is never ahead of what was processed, in whatever order that was.
"""

from collections.abc import Mapping

from strandline.values import InvalidError, Offset


class Outstanding:
    """The deliveries of one partition at or after its floor."""

    __slots__ = ("_counts", "_dealt_with", "_earlier", "_resting", "floor")

    def __init__(self, floor: Offset, earlier: Mapping[int, int]) -> None:
        self._earlier = dict(earlier)
        """Deliveries before this consumer began, of what it has not been given yet."""
        self.floor = floor
        self._counts: dict[int, int] = {}
        self._dealt_with: set[int] = set()
        self._resting: set[int] = set()

    def __len__(self) -> int:
        return len(self._counts)

    def upcoming(self, offset: int) -> int:
        """Return how many deliveries the next one of this record will make."""
        return self._counts.get(offset, self._earlier.get(offset, 0)) + 1

    def deliver(self, offset: int) -> int:
        """Note a delivery, and return how many that makes."""
        count = self._counts[offset] = self.upcoming(offset)
        self._earlier.pop(offset, None)
        return count

    def take_on(self, offset: int) -> None:
        """Let the record be settled, though this life may not have delivered it."""
        if not self.is_dealt_with(offset):
            self._counts.setdefault(offset, self._earlier.pop(offset, 0))

    def worth_keeping(self) -> dict[int, int]:
        """Return the counts that another life of this consumer has to know.

        What was delivered once, and not as the first outstanding record, is left out.
        """
        delivered = {
            offset: count
            for offset, count in self._counts.items()
            if offset not in self._dealt_with and (count > 1 or offset == self.floor)
        }
        return {**self._earlier, **delivered}

    def count(self, offset: int) -> int:
        """Return how often the record was delivered; InvalidError if it is not outstanding."""
        if offset in self._counts and offset not in self._dealt_with:
            return self._counts[offset]
        raise InvalidError("this record is not outstanding, nack what was delivered", offset=offset)

    def is_dealt_with(self, offset: int) -> bool:
        """Whether the record needs no delivery any more."""
        return offset < self.floor or offset in self._dealt_with

    def is_outstanding(self, offset: int) -> bool:
        """Whether the record was delivered and is not dealt with."""
        return offset in self._counts and offset not in self._dealt_with

    def floor_after(self, offset: int) -> Offset:
        """Return the floor as `settle` would leave it; raises as that does."""
        if offset < self.floor:
            return self.floor
        if offset not in self._counts:
            raise InvalidError("this record was not delivered here", offset=offset)
        floor = offset + 1 if offset == self.floor else self.floor
        while floor in self._dealt_with:
            floor += 1
        return Offset(floor)

    def settle(self, offset: int) -> None:
        """The record is dealt with; again is no error, but InvalidError if never delivered."""
        if offset < self.floor:
            return
        if offset not in self._counts:
            raise InvalidError("this record was not delivered here", offset=offset)
        self._resting.discard(offset)
        self._dealt_with.add(offset)
        while self.floor in self._dealt_with:
            self._dealt_with.remove(self.floor)
            del self._counts[self.floor]
            self.floor = Offset(self.floor + 1)

    def rest(self, offset: int) -> bool:
        """The record waits to be delivered again; False if it does already."""
        if offset in self._resting:
            return False
        self._resting.add(offset)
        return True

    def is_resting(self, offset: int) -> bool:
        """Whether the record waits to be delivered again."""
        return offset in self._resting

    def rouse(self, offset: int) -> None:
        """The record's wait is over, if it was not dealt with meanwhile."""
        self._resting.discard(offset)
