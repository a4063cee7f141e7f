"""Runs one trigger on an event loop: takes records, has them called, settles them."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from strandline.clock import Clock
from strandline.groups import Assigned, AssignmentEvent, Revoked
from strandline.log import Log
from strandline.subscriptions import AsyncConsumer, Delivery
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.received import processing_of
from strandline.triggers.calls import Calls
from strandline.triggers.counters import Counters
from strandline.triggers.entry import ActiveDelivery, TooOftenError, light
from strandline.triggers.gate import Gate
from strandline.triggers.handing_over import HandingOver
from strandline.triggers.pace import AHEAD_BYTES, Pace
from strandline.triggers.settling import Finished, Settling, Verdict, reason_of
from strandline.triggers.shared_timer import SharedTimer, wait_until
from strandline.triggers.source import RedriveSource, Source, TopicSource, Watcher
from strandline.triggers.stop import Stop
from strandline.triggers.subjects import Subjects, lanes_of
from strandline.triggers.trigger import Trigger
from strandline.triggers.turns import Turns
from strandline.triggers.workers import call_on
from strandline.values import LeaseLostError, StrandlineError, UnavailableError

CANCEL_TIMEOUT_S: Final = 5.0
"""How long cancelled functions and the last acks may take after the stop's timeout."""

TOGETHER_S: Final = 0.002
"""How long ended records wait for others to end, to be settled in the same batch."""

_logger = logging.getLogger("strandline")


class Dispatch:
    """Runs one trigger. Any thread may create it, which may block; all else is on the loop.

    Records are taken from their consumer in lists, as many in advance as `Pace` says. Each
    record then waits until it is the first in its lanes and a place is free (`Turns`), and the
    function is called (`Calls`). Ended records are settled in batches, in a thread, while
    further calls run.
    """

    def __init__(self, log: Log, trigger: Trigger, clock: Clock, gate: Gate) -> None:
        topic = log.topic(trigger.topic)
        self.trigger = trigger
        self._attempts_max = len(trigger.retry) + 1
        self._counters = Counters()
        self._clock = clock
        self._gate = gate
        self._processing = processing_of(log, topic, trigger.name)
        self._subjects = Subjects(log, topic, trigger)
        self._settling = Settling(log, topic, trigger, self._subjects.keys, clock)
        self._sources: list[Source] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: int | None = None
        for kind in (TopicSource, RedriveSource):
            number = len(self._sources)
            try:
                self._sources.append(kind(log, topic, trigger, clock, self._watcher(number)))
            except BaseException:
                self.close()
                raise
        self._turns = Turns(
            *(gate, trigger.concurrency), may_begin=self._may_begin, on_change=self._on_change
        )
        self._pace = Pace(clock)
        self._handing_over = HandingOver()
        self._delayed: dict[tuple[int, int, int], ActiveDelivery] = {}
        self._timeouts: dict[Source, asyncio.Timeout] = {}
        self._handed_back: Sequence[ActiveDelivery] = ()
        self._is_stopping = False

    def close(self) -> None:
        """Close the consumers. Records in progress are delivered again."""
        for source in self._sources:
            source.consumer.close()

    async def run(self, stop: Stop) -> None:
        """Run until a stop is requested; raises the error that ends it earlier."""
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._timer = SharedTimer(self._clock, self._wake)
        self._has_work = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_woken = asyncio.Event()
        self._calls = Calls(
            *(self.trigger, self._turns, self._subjects, self._handing_over),
            processing=self._processing,
            clock=self._clock,
        )
        self._gate.join(self)
        feeders = [asyncio.create_task(self._feed(source)) for source in self._sources]
        settler = asyncio.create_task(self._settle_all())
        stopping = asyncio.create_task(stop.is_requested.wait())
        try:
            await asyncio.wait([*feeders, settler, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_stopping = True
            for task in (*feeders, stopping):
                task.cancel()
            await asyncio.wait([*feeders, stopping])
            if settler.done():
                self._calls.release_unsettled()
            await self._finish_calls()
            await self._finish_settling(settler)
            await self._hand_back()
            self._timer.close()
            self._calls.close()
            self.close()
        ended = [task.exception() for task in (*feeders, settler) if not task.cancelled()]
        for error in filter(None, ended):
            raise error

    # --- from the consumer to a call ---

    async def _feed(self, source: Source) -> None:
        while True:
            while not self._is_roomy():
                self._has_room.clear()
                await self._has_room.wait()
            try:
                deliveries = await self._take(source)
            except TimeoutError:
                # Woken: a record may be due earlier than this step assumed.
                self.begin_ready()
                continue
            except UnavailableError as error:
                _logger.debug("trigger %s has to wait: %s", self.trigger.name, error)
                await self._delay()
                continue
            self._pace.note_taken(self._turns.count)
            # If large records made this list short, the next list is likely to be short, too.
            self._turns.low = (min(self._pace.ahead, len(deliveries)) - 1) // 2
            self._turns.is_in_doubt = False
            for delivery in deliveries:
                self._enter(source, delivery)
            self.begin_ready()

    async def _take(self, source: Source) -> Sequence[Delivery]:
        """Return the next deliveries; TimeoutError if woken, without losing a delivery."""
        consumer, ahead = AsyncConsumer(source.consumer), self._pace.ahead
        try:
            async with asyncio.timeout(None) as self._timeouts[source]:
                if ahead > 1:
                    return await consumer.fetch(ahead, AHEAD_BYTES)
                # `next` counts a delivery with those after it, `fetch` counts a list alone.
                delivery = await consumer.next()
        finally:
            del self._timeouts[source]
        assert delivery is not None
        return (delivery,)

    def _is_roomy(self) -> bool:
        # If in doubt, a step of the consumer finds out which process holds its partitions.
        return self._turns.is_in_doubt or self._turns.is_roomy

    def _may_begin(self) -> bool:
        return self._stop.may_begin and not self._is_stopping

    async def _delay(self) -> None:
        """Return after the next batch was settled, at the latest after POLL_S."""
        self._is_woken.clear()
        self._timer.fire_in(POLL_S)
        await self._is_woken.wait()

    def _wake(self) -> None:
        """Make the feeders take another step."""
        now = asyncio.get_running_loop().time()
        for timeout in self._timeouts.values():
            if not timeout.expired():
                timeout.reschedule(now)
        self._is_woken.set()
        self._turns.is_in_doubt = False
        self.begin_ready()

    def _enter(self, source: Source, delivery: Delivery) -> None:
        entry = ActiveDelivery(source, light(delivery))
        delayed = self._delayed.pop(entry.place, None) if self._delayed else None
        if delayed is not None:
            delayed.delivered = entry.delivered
            entry = delayed
        verdict = None
        if (delayed is not None or delivery.count > 1) and not self._is_delivered_again(entry):
            verdict = Verdict.LOST
        elif not entry.is_suspect and entry.error is None:
            self._subjects.read(entry, delivery.record)
            if entry.record is None and entry.error is None:
                verdict = Verdict.UNWANTED
        if verdict is not None:
            if delayed is not None:
                self._turns.leave_lanes(entry)
            self._turns.pass_over(entry.finished(verdict))
            self._has_work.set()
        elif delayed is not None:
            self._turns.add(entry)
        else:
            self._turns.enter(entry, lanes_of(entry))

    def _is_delivered_again(self, entry: ActiveDelivery) -> bool:
        """Look up how its earlier deliveries ended; False if another process has it by now."""
        try:
            attempts = entry.source.consumer.attempts(entry.delivered)
        except LeaseLostError:
            return False
        entry.record, entry.key, entry.error = None, None, None
        entry.attempt, entry.is_suspect = attempts.charged + 1, attempts.is_suspect
        if attempts.is_too_often(self._attempts_max):
            entry.error = TooOftenError(
                "each process that handled this record ended while it did",
                deliveries=attempts.count,
            )
            # It is dead-lettered without another delivery.
            entry.delivered = replace(entry.delivered, count=attempts.count)
            entry.is_suspect = False
        # No user code is called for a suspect before it runs alone.
        entry.settled = asyncio.Event() if entry.is_suspect else None
        return True

    @property
    def must_run_alone(self) -> bool:
        """See gate.Member."""
        return self._turns.must_run_alone

    def begin_ready(self) -> None:
        """See gate.Member."""
        self._calls.begin()
        if self._is_roomy():
            self._has_room.set()

    # --- from a call to the log ---

    def _on_change(self) -> None:
        """See Turns."""
        if threading.get_ident() == self._loop_thread:
            asyncio.get_running_loop().call_soon(self._look)
        elif self._loop is not None:
            call_on(self._loop, self._look)

    def _look(self) -> None:
        """Process what has changed in `Turns` since the last call."""
        ended = self._turns.ended()
        for entry, error in ended.failures:
            self._fail(entry, error)
        if self._turns.is_in_doubt:
            self._timer.fire_in(POLL_S)
        self._has_work.set()
        if not self._turns.running:
            self._is_idle.set()
        if ended.opens_gate:
            self._gate.begin_all()
        else:
            self.begin_ready()

    def _fail(self, entry: ActiveDelivery, error: BaseException) -> None:
        if entry.attempt >= self._attempts_max or isinstance(error, TooOftenError):
            self._turns.leave_lanes(entry)
            self._turns.pass_over(entry.finished(Verdict.DEAD_LETTER, error))
            return
        delay_s = self.trigger.retry[entry.attempt - 1]
        _logger.warning(
            "trigger %s failed and tries again in %g s:"
            " topic=%s partition=%d offset=%d attempt=%d of=%d cause=%s",
            *(self.trigger.name, delay_s, entry.carrier.topic, entry.carrier.partition),
            *(entry.carrier.offset, entry.attempt, self._attempts_max, reason_of(error)),
            extra={"trigger": self.trigger.name, "cause": reason_of(error), **entry.shown},
        )
        if self._handing_over.leave_to_next(entry):
            self._turns.leave_lanes(entry)
        else:
            # It stays in its lanes: the records behind it wait for its retry.
            self._delayed[entry.place] = entry
        failed = entry.finished(Verdict.FAILED, error)
        failed.delay_s = delay_s
        self._turns.pass_over(failed)

    async def _settle_all(self) -> None:
        while not (self._is_stopping and self._turns.is_over):
            await self._has_work.wait()
            self._has_work.clear()
            if self._turns.is_settled_later and not self._is_stopping:
                await asyncio.sleep(TOGETHER_S)  # noqa: TID251 - Real time: a stopped test clock must not delay acks.
            batch = self._turns.take_finished()
            if batch:
                await self._settle(batch)

    async def _settle(self, batch: list[Finished]) -> None:
        while True:
            try:
                await asyncio.to_thread(self._settling.settle, batch)
            except UnavailableError as error:
                _logger.warning("trigger %s cannot ack yet: %s", self.trigger.name, error)
                await wait_until(self._clock, asyncio.Event(), POLL_S)
            else:
                break
        for finished in batch:
            self._note_end(finished)
        keys = self._subjects.keys
        if keys is not None and self._settling.horizon_us is not None:
            keys.expire(self._settling.horizon_us)
            self._settling.horizon_us = None
        self._is_woken.set()
        # A consumer that blocks keys delivers the next record of a key only now.
        if self.trigger.blocks_keys or any(each.verdict is Verdict.FAILED for each in batch):
            self._wake()
        else:
            self.begin_ready()

    def totals(self) -> Counters:
        """Return the counters, including the records that the consumer has skipped."""
        passed = sum(source.consumer.passed_over.count for source in self._sources)
        counters = self._counters
        return replace(
            counters,
            passed_over=counters.passed_over + passed,
            in_flight=len(self._turns.running),
        )

    def _note_end(self, finished: Finished) -> None:
        if finished.verdict is not Verdict.RETURNED:
            self._counters.count(finished.verdict)
        if finished.settled is not None:
            finished.settled.set()
        if finished.verdict is Verdict.FAILED:
            self._timer.fire_in(finished.delay_s)
        elif finished.verdict is Verdict.LOST:
            # Drop failed records that wait here: the other process retries them.
            self._stop_waiting(finished.source, finished.carrier.partition)

    # --- assigned and revoked partitions ---

    def _watcher(self, number: int) -> Watcher:
        def watch(event: AssignmentEvent) -> None:
            if isinstance(event, Assigned):
                self._subjects.has_new_partitions = True
            elif self._loop is not None:
                # A closed loop has no records left to drop.
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._forget, number, event)

        return watch

    def _forget(self, number: int, revoked: Revoked) -> None:
        source = self._sources[number]
        self._handing_over.begin(source, revoked)
        self._stop_waiting(source, revoked.partition)
        self.begin_ready()

    def _stop_waiting(self, source: Source, partition: int) -> None:
        """Drop the records that wait for a retry: another process retries them."""
        for place, entry in tuple(self._delayed.items()):
            if entry.source is source and entry.carrier.partition == partition:
                del self._delayed[place]
                self._handing_over.leave_to_next(entry)
                self._turns.leave_lanes(entry)

    # --- the end ---

    async def _finish_calls(self) -> None:
        if not self._turns.running:
            return
        self._is_idle.clear()
        waits = [
            asyncio.create_task(wait_until(self._clock, self._is_idle, self._stop.timeout_s)),
            asyncio.create_task(self._stop.is_urgent.wait()),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self._handed_back = await self._calls.end(CANCEL_TIMEOUT_S)
        if self._handed_back:
            _logger.warning(
                "trigger %s hands back %d records whose functions did not end in time",
                *(self.trigger.name, len(self._handed_back)),
            )

    async def _finish_settling(self, settler: asyncio.Task[None]) -> None:
        self._has_work.set()
        if not settler.done():
            await asyncio.wait([settler], timeout=CANCEL_TIMEOUT_S)
        if not settler.done():
            settler.cancel()
            await asyncio.wait([settler])

    async def _hand_back(self) -> None:
        """Uncount deliveries whose call has not begun; those of running functions stay counted."""
        for source in self._sources:
            running = [each.carrier for each in self._handed_back if each.source is source]
            try:
                await asyncio.to_thread(source.consumer.hand_back, running)
            except StrandlineError as error:
                _logger.debug("trigger %s leaves its counts: %s", self.trigger.name, error)
