"""One step of a consumer: returns deliveries as soon as there are any. Blocking and async."""

from collections.abc import Callable

from strandline.clock import Clock, deadline_in, has_passed
from strandline.log.off_loop import CallsInTurn
from strandline.subscriptions.async_subscription import AsyncSubscription
from strandline.subscriptions.deliveries import Deliveries, FetchLimits
from strandline.subscriptions.delivery import Delivery
from strandline.subscriptions.passed_over import PassedOver
from strandline.subscriptions.rebalancing import Rebalancing
from strandline.subscriptions.redriven import Redriven
from strandline.subscriptions.screening import FailedRecord
from strandline.subscriptions.subscription import Subscription
from strandline.values import Record
from strandline.values.arguments import check_timeout
from strandline.writes.loops import check_on_asyncio


class Steps:
    """Takes deliveries of a topic and of its redriven records. One caller at a time."""

    def __init__(
        self,
        subscription: Subscription[Record | FailedRecord],
        deliveries: Deliveries,
        redriven: Redriven,
        *,
        rebalancing: Rebalancing,
        clock: Clock,
        passed_over: PassedOver,
        on_found: Callable[[list[Delivery]], None] | None,
    ) -> None:
        self._subscription = subscription
        self._deliveries = deliveries
        self._redriven = redriven
        self._rebalancing = rebalancing
        self._clock = clock
        self._passed_over = passed_over
        self._on_found = on_found
        self._calls = CallsInTurn()

    def take(self, timeout_s: float | None, limits: FetchLimits | None) -> list[Delivery]:
        """Return the available deliveries within the limits; one delivery without limits.

        Waits until there is at least one; returns none if that takes longer than `timeout_s`.
        """
        deadline = deadline_in(self._clock, check_timeout(timeout_s))
        is_last = False
        self._subscription.check_open()
        self._calls.settle_here()
        while not (found := self._hand_over(limits)):
            if self._is_upkeep_due():
                self._renew()
            elif limits is not None and self._deliveries.gather(limits):
                is_last = False
            elif self._deliveries.find():
                self._deliveries.prepare()
                is_last = False
            elif is_last:
                self._look_for_redriven()
                found = self._hand_over(limits)
                break
            else:
                wait_s = self._deliveries.wait_s(deadline)
                self._deliveries.put(self._subscription.next(wait_s))
                is_last = has_passed(self._clock, deadline)
        if self._on_found is not None:
            self._on_found(found)
        return found

    async def take_on_loop(
        self, timeout_s: float | None, limits: FetchLimits | None
    ) -> list[Delivery]:
        """Do what `take` does on the running event loop."""
        check_on_asyncio()
        deadline = deadline_in(self._clock, check_timeout(timeout_s))
        is_last = False
        calls = self._calls
        records = AsyncSubscription(self._subscription)
        self._subscription.check_open()
        await calls.settle()
        while not (found := self._hand_over(limits)):
            if self._is_upkeep_due():
                await calls.make(self._renew)
            elif limits is not None and await calls.make(self._deliveries.gather, limits):
                is_last = False
            elif await self._deliveries.find_on_loop(calls):
                await calls.make(self._deliveries.prepare)
                is_last = False
            elif is_last:
                if self._redriven.is_expected:
                    await calls.make(self._look_for_redriven)
                found = self._hand_over(limits)
                break
            else:
                wait_s = self._deliveries.wait_s(deadline)
                self._deliveries.put(await records.next(wait_s))
                is_last = has_passed(self._clock, deadline)
        if self._on_found is not None:
            self._on_found(found)
        return found

    def settle(self) -> None:
        """Wait for what a step that was cancelled has left in its thread."""
        self._calls.settle_here()

    def _is_upkeep_due(self) -> bool:
        now = self._clock.monotonic()
        is_due = self._redriven.is_due(now) or self._passed_over.is_due(now)
        return is_due or not self._rebalancing.is_valid

    def _renew(self) -> None:
        """Check which partitions are still held, and look for redriven records. May wait."""
        if not self._rebalancing.is_valid:
            self._rebalancing.step()
        self._passed_over.store_if_due(self._clock.monotonic())
        self._look_for_redriven()

    def _look_for_redriven(self) -> None:
        self._redriven.look()

    def _hand_over(self, limits: FetchLimits | None) -> list[Delivery]:
        if not self._rebalancing.is_valid:
            # Another member may have the prepared deliveries by now.
            return []
        if (redriven := self._redriven.take()) is not None:
            return [redriven]
        if limits is not None:
            return self._deliveries.take_many()
        made = self._deliveries.take()
        return [] if made is None else [made]
