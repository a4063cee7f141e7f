"""Keeps the order of keys in partitions that another process takes over."""

from strandline.groups import Revoked
from strandline.triggers.entry import ActiveDelivery
from strandline.triggers.source import Source

_Held = tuple[int, int, int]
"""A source, a partition, and the generation in which it was held."""


class HandingOver:
    """Partitions that are handed over, and the keys whose records go with them unhandled.

    A record that has failed is retried by the next process. Until the partition is drained,
    later records of its key must not be handled here. Changed on the loop; any thread asks.
    """

    def __init__(self) -> None:
        self._partitions: set[_Held] = set()
        self._keys: set[tuple[_Held, str]] = set()

    def begin(self, source: Source, revoked: Revoked) -> None:
        """Note a partition that is drained, or that was lost, which ends this."""
        place = id(source), int(revoked.partition)
        # What was noted in earlier generations has ended.
        self._partitions = {each for each in self._partitions if each[:2] != place}
        self._keys = {each for each in self._keys if each[0][:2] != place}
        if not revoked.is_lost:
            self._partitions.add((*place, revoked.generation))

    def leave_to_next(self, entry: ActiveDelivery) -> bool:
        """Have later records of a failed one's key returned; False if it is retried here."""
        held = _held(entry)
        if held not in self._partitions:
            return False
        if entry.carrier.key is not None:
            self._keys.add((held, entry.carrier.key))
        return True

    def returns(self, entry: ActiveDelivery) -> bool:
        """Whether a record must not be handled here."""
        key = entry.carrier.key
        return bool(self._keys) and key is not None and (_held(entry), key) in self._keys


def _held(entry: ActiveDelivery) -> _Held:
    return id(entry.source), entry.carrier.partition, entry.delivered.generation
