"""The outcome of an append that is complete when it returns."""

import msgspec

from strandline.log.store import Placement
from strandline.values import Durability

_APPLIED = Durability.APPLIED


# A struct: one is made for each append, and msgspec makes structs in C.
class Settled(msgspec.Struct, eq=False):
    """Implements Outcome for a store that applies each append before it returns."""

    placement: Placement
    level: Durability = _APPLIED
    is_settled: bool = True

    def result(self) -> Placement:
        """Return the placement."""
        return self.placement

    def wait(self, level: Durability = _APPLIED, timeout_s: float | None = None) -> Placement:
        """Return the placement."""
        del level, timeout_s
        return self.placement

    async def wait_on_loop(
        self, level: Durability = _APPLIED, timeout_s: float | None = None
    ) -> Placement:
        """Return the placement."""
        del level, timeout_s
        return self.placement
