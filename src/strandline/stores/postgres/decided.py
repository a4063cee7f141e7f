"""The outcome of an append, final once its transaction is over."""

from copy import copy

from strandline.log.store import AppendRequest, Placement
from strandline.values import Durability, StrandlineError, UnavailableError
from strandline.writes import WriteReceipt

_WRITTEN = Durability.WRITTEN


class NotStoredError(Exception):
    """Nothing of a transaction was stored, but its connection still works."""

    def __init__(self, reason: StrandlineError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Decided:
    """The outcome of an append: final once its transaction is over."""

    __slots__ = ("error", "placement", "request")

    def __init__(self, request: AppendRequest, placement: Placement) -> None:
        self.request: AppendRequest = request
        self.placement: Placement = placement
        #: Why nothing of it was stored, although the append itself was valid.
        self.error: StrandlineError | None = None

    def refuse(self, error: StrandlineError) -> None:
        """Fail it: nothing of it was stored."""
        self.error = copy(error)
        if isinstance(self.error, UnavailableError):
            self.error.write = self.request

    def result(self) -> Placement:
        """Return its placement, or raise the reason why it was not stored."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.placement


class LaneOutcome:
    """Implements Outcome. A written append is committed, which is `level` on this server."""

    __slots__ = ("_level", "_receipt")

    def __init__(self, receipt: WriteReceipt[Decided], level: Durability) -> None:
        self._receipt = receipt
        self._level = level

    @property
    def is_settled(self) -> bool:
        return self._receipt.is_settled

    @property
    def level(self) -> Durability | None:
        is_known = self._receipt.level is not None
        return self._level if is_known and self._receipt.result().error is None else None

    def result(self) -> Placement:
        return self._receipt.result().result()

    def wait(self, level: Durability = _WRITTEN, timeout_s: float | None = None) -> Placement:
        return self._receipt.wait(min(level, _WRITTEN), timeout_s).result()

    async def wait_on_loop(
        self, level: Durability = _WRITTEN, timeout_s: float | None = None
    ) -> Placement:
        return (await self._receipt.wait_on_loop(min(level, _WRITTEN), timeout_s)).result()
