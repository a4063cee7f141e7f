"""Which leases have run out, by the monotonic clock of the process that looks."""

from collections.abc import Hashable, Iterable


class Sightings:
    """When each lease was first seen with its present beat.

    A holder counts its own lease from before it wrote the beat, and every other process
    counts from after it has read it: so a lease has run out for its holder first, whatever
    the wall clocks of the two say.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[int, float]] = {}

    def look(self, leases: Iterable[tuple[Hashable, int]], now: float) -> None:
        """Note the beat of each lease, which was read before the moment `now`; forget others."""
        seen = self._seen
        self._seen = {}
        for lease, beat in leases:
            known = seen.get(lease)
            self._seen[lease] = known if known is not None and known[0] == beat else (beat, now)

    def has_run_out(self, lease: Hashable, lease_s: float, now: float) -> bool:
        """Whether the beat has not risen for `lease_s`."""
        known = self._seen.get(lease)
        return known is not None and now - known[1] >= lease_s
