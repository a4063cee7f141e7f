"""Detects expired leases by the monotonic clock of the observing process."""

from collections.abc import Hashable, Iterable


class Sightings:
    """When each lease was first seen with its current beat.

    A holder measures its lease from before it wrote the beat, and every other process from
    after it has read it. So a lease expires for its holder first, whatever the wall clocks
    show.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[int, float]] = {}

    def look(self, leases: Iterable[tuple[Hashable, int]], now: float) -> None:
        """Record the beat of each lease, read before the moment `now`; drop other leases."""
        seen = self._seen
        self._seen = {}
        for lease, beat in leases:
            known = seen.get(lease)
            self._seen[lease] = known if known is not None and known[0] == beat else (beat, now)

    def has_expired(self, lease: Hashable, lease_s: float, now: float) -> bool:
        """Whether the beat has not changed for `lease_s`."""
        known = self._seen.get(lease)
        return known is not None and now - known[1] >= lease_s
