"""An outcome that is known at once."""

import msgspec

from strandline.log.store import Placement
from strandline.values import Durability

_APPLIED = Durability.APPLIED


# A struct, because one is made for each append and a struct is made in C.
class Settled(msgspec.Struct, eq=False):
    """Implements Outcome for a store that applies each append before it returns."""

    placement: Placement
    level: Durability = _APPLIED
    is_settled: bool = True

    def result(self) -> Placement:
        """Return where it went."""
        return self.placement

    def wait(self, level: Durability = _APPLIED, timeout_s: float | None = None) -> Placement:
        """Return where it went."""
        del level, timeout_s
        return self.placement

    async def wait_on_loop(
        self, level: Durability = _APPLIED, timeout_s: float | None = None
    ) -> Placement:
        """Return where it went."""
        del level, timeout_s
        return self.placement
