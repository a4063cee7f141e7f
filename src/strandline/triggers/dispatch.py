"""One trigger at work on an event loop: feeding, calling, settling."""

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from strandline.clock import Clock
from strandline.groups import Assigned, AssignmentEvent
from strandline.log import Log
from strandline.subscriptions import AsyncConsumer, Delivery
from strandline.subscriptions.pages import POLL_S
from strandline.subscriptions.received import processing_of
from strandline.triggers.counters import Counters
from strandline.triggers.entry import ActiveDelivery, TooOftenError, is_async, light
from strandline.triggers.filtering import wanted
from strandline.triggers.gate import Gate
from strandline.triggers.handled_keys import HandledKey, HandledKeys, digest_of
from strandline.triggers.lanes import KeyLanes
from strandline.triggers.settling import Finished, Settling, Verdict, reason_of
from strandline.triggers.shared_timer import SharedTimer, wait_until
from strandline.triggers.source import RedriveSource, Source, TopicSource, Watcher
from strandline.triggers.stop import Stop
from strandline.triggers.trigger import Trigger
from strandline.triggers.workers import Workers
from strandline.values import LeaseLostError, Record, StrandlineError, UnavailableError

CANCEL_TIMEOUT_S: Final = 5.0
"""How long cancelled functions and the last acks may take, once time is up."""

_logger = logging.getLogger("strandline")


class Dispatch:
    """Runs one trigger. Made on any thread, which may have to wait; then for the loop alone.

    A record is taken from its consumer when there is room for one more call. If a record
    of the same lane is in progress, it waits, without its value, and the next is taken. What
    is finished is settled in batches, on a thread, while calls go on.
    """

    def __init__(self, log: Log, trigger: Trigger, clock: Clock, gate: Gate) -> None:
        topic = log.topic(trigger.topic)
        self.trigger = trigger
        self._attempts_max = len(trigger.retry) + 1
        self.counters: Final = Counters()
        self._clock = clock
        self._gate = gate
        self._processing = processing_of(log, topic, trigger.name)
        self._wanted = wanted(log, topic, trigger.where)
        self._keys: HandledKeys | None = None
        if trigger.dedupe_key is not None:
            window_us = round(trigger.dedupe_window_s * 1_000_000)
            self._keys = HandledKeys(log, topic, trigger.name, window_us)
        self._settling = Settling(log, topic, trigger, self._keys, clock)
        self._sources: list[Source] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Whether another process may have handled keys that are not known here.
        self._has_new_partitions = False
        for kind in (TopicSource, RedriveSource):
            number = len(self._sources)
            try:
                self._sources.append(kind(log, topic, trigger, clock, self._watcher(number)))
            except BaseException:
                self.close()
                raise
        self._workers = Workers(trigger.concurrency, trigger.name)
        self._lanes: KeyLanes[ActiveDelivery] = KeyLanes()
        self._ready: deque[ActiveDelivery] = deque()
        self._delayed: dict[tuple[int, int, int], ActiveDelivery] = {}
        self._calls: dict[asyncio.Task[None], ActiveDelivery] = {}
        self._finished: list[Finished] = []
        self._timeouts: dict[Source, asyncio.Timeout] = {}
        self._abandoned: list[ActiveDelivery] = []
        self._is_stopping = False

    def close(self) -> None:
        """Take no more. What is in progress comes again."""
        for source in self._sources:
            source.consumer.close()

    async def run(self, stop: Stop) -> None:
        """Work until a stop is requested; raises what prevents it from working."""
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._timer = SharedTimer(self._clock, self._wake)
        self._has_work = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_woken = asyncio.Event()
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
                self._release_unsettled()
            await self._finish_calls()
            await self._finish_settling(settler)
            await self._hand_back()
            self._timer.close()
            self._workers.close()
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
                delivery = await self._next_of(source)
            except TimeoutError:
                # Stirred: something may be due earlier than this step knew.
                self.begin_ready()
                continue
            except UnavailableError as error:
                _logger.debug("trigger %s has to wait: %s", self.trigger.name, error)
                await self._delay()
                continue
            self._take(source, delivery)

    async def _next_of(self, source: Source) -> Delivery:
        """Return the next delivery; TimeoutError once stirred, which loses none."""
        try:
            async with asyncio.timeout(None) as self._timeouts[source]:
                delivery = await AsyncConsumer(source.consumer).next()
        finally:
            del self._timeouts[source]
        assert delivery is not None
        return delivery

    def _is_roomy(self) -> bool:
        return not self._ready and self._has_free_call()

    def _has_free_call(self) -> bool:
        return len(self._calls) < self.trigger.concurrency

    def _is_ending(self) -> bool:
        return self._is_stopping or self._stop.is_requested.is_set()

    async def _delay(self) -> None:
        """Return after the next batch was settled, or after a while."""
        self._is_woken.clear()
        self._timer.fire_in(POLL_S)
        await self._is_woken.wait()

    def _wake(self) -> None:
        """Have the feeders look again."""
        now = asyncio.get_running_loop().time()
        for timeout in self._timeouts.values():
            if not timeout.expired():
                timeout.reschedule(now)
        self._is_woken.set()

    def _take(self, source: Source, delivery: Delivery) -> None:
        entry = ActiveDelivery(source, light(delivery.record), delivery.count, None)
        delayed = self._delayed.pop(entry.place, None)
        if delayed is not None:
            entry = delayed
            entry.count = delivery.count
        entry.generation = delivery.generation
        try:
            attempts = source.consumer.attempts(delivery)
        except LeaseLostError:
            # Gone to another process since it was delivered.
            return
        entry.attempt, entry.is_suspect = attempts.charged + 1, attempts.is_suspect
        if attempts.is_too_often(self._attempts_max):
            entry.error = TooOftenError(
                "each process that handled this record ended while it did",
                deliveries=attempts.count,
            )
            # It is not delivered once more.
            entry.count, entry.is_suspect = attempts.count, False
        elif entry.is_suspect:
            # Nothing of the user's is called for it before it is alone.
            entry.record, entry.key, entry.error = None, None, None
        else:
            self._read(entry, delivery.record)
        is_unwanted = entry.record is None and entry.error is None and not entry.is_suspect
        if is_unwanted:
            self._finish(entry, Verdict.UNWANTED, holds_lanes=delayed is not None)
        elif delayed is not None or self._lanes.enter(entry, self._lanes_of(entry)):
            self._ready.append(entry)
        else:
            entry.record = None
        self.begin_ready()

    def _read(self, entry: ActiveDelivery, carrier: Record | None = None) -> None:
        """Find out what the function is to be given, and under which key."""
        entry.record, entry.key, entry.error = None, None, None
        try:
            if carrier is None:
                carrier = entry.source.read(entry.carrier.partition, entry.carrier.offset)
            subject = entry.source.subject(carrier)
            entry.record = None if subject is None else self._wanted(subject)
            if entry.record is not None and self._keys is not None:
                entry.key = self._key_of(entry.record)
        except Exception as error:  # noqa: BLE001 - A failure of the trigger, as those of its function.
            entry.error = error

    def _key_of(self, record: Record) -> HandledKey | None:
        dedupe_key = self.trigger.dedupe_key
        if isinstance(dedupe_key, str):
            payload = record.payload
            key = payload.get(dedupe_key) if isinstance(payload, dict) else None
        else:
            assert dedupe_key is not None
            key = dedupe_key(record)
        return None if key is None else HandledKey(digest_of(key), record.timestamp_us)

    def _lanes_of(self, entry: ActiveDelivery) -> Iterator[tuple[object, ...]]:
        record = entry.record or entry.carrier
        if record.key is not None:
            yield "key", record.partition, record.key
        if entry.key is not None:
            yield "handled", entry.key.key

    @property
    def must_run_alone(self) -> bool:
        """See gate.Member."""
        is_next = bool(self._ready) and self._ready[0].is_suspect
        return is_next and self._has_free_call() and not self._is_ending()

    def begin_ready(self) -> None:
        """See gate.Member."""
        while self._ready and self._has_free_call():
            if self._is_ending():
                return
            if not self._gate.may_begin(alone=self._ready[0].is_suspect):
                return
            if self._ready[0].is_in_doubt:
                # The feeders find out whether the lease still holds.
                self._timer.fire_in(POLL_S)
                return
            self._begin(self._ready.popleft())
        if self._is_roomy():
            self._has_room.set()

    def _begin(self, entry: ActiveDelivery) -> None:
        if entry.is_gone:
            self._finish(entry, Verdict.LOST, holds_lanes=True)
            return
        if not entry.is_suspect:
            if entry.record is None and entry.error is None:
                self._read(entry)
            if self._is_finished(entry):
                return
        task = asyncio.create_task(self._call(entry))
        self._calls[task] = entry
        self._gate.enter(task, alone=entry.is_suspect)
        self.counters.in_flight += 1

    def _is_finished(self, entry: ActiveDelivery) -> bool:
        """Finish an entry for which nothing is called; False for all others."""
        if entry.error is not None:
            self._fail(entry, entry.error)
        elif entry.record is None:
            self._finish(entry, Verdict.UNWANTED, holds_lanes=True)
        elif entry.key is not None and self._is_handled(*entry.key):
            self._finish(entry, Verdict.REPEATED, holds_lanes=True)
        else:
            return False
        return True

    def _is_handled(self, key: bytes, timestamp_us: int) -> bool:
        assert self._keys is not None
        if self._has_new_partitions:
            # What came from another process was handled there until then.
            self._has_new_partitions = False
            self._keys.catch_up()
        return self._keys.is_handled(key, timestamp_us)

    # --- the call ---

    async def _call(self, entry: ActiveDelivery) -> None:
        try:
            await self._handle(entry)
            if entry.settled is not None:
                # Otherwise the log would accuse it of what the next one does.
                await entry.settled.wait()
        finally:
            self._leave()
        self.begin_ready()

    async def _handle(self, entry: ActiveDelivery) -> None:
        try:
            if entry.is_suspect:
                await self._begin_alone(entry)
                self._read(entry)
                if self._is_finished(entry):
                    return
            await self._call_function(entry)
        except asyncio.CancelledError as cancelled:
            if not self._is_stopping:
                self._fail(entry, cancelled)
            # Otherwise it is handed back, and comes again.
        except BaseException as failure:  # noqa: BLE001 - Whatever a function raises is its failure.
            self._fail(entry, failure)
        else:
            if entry.key is not None and self._keys is not None:
                self._keys.add(entry.key)
            self._finish(entry, Verdict.HANDLED, holds_lanes=True)

    async def _begin_alone(self, entry: ActiveDelivery) -> None:
        while True:
            try:
                await asyncio.to_thread(entry.source.consumer.begin_alone, entry.delivered)
            except UnavailableError as error:
                _logger.warning("trigger %s cannot count yet: %s", self.trigger.name, error)
                await wait_until(self._clock, asyncio.Event(), POLL_S)
            else:
                return

    def _leave(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        del self._calls[task]
        self._gate.leave(task)
        self.counters.in_flight -= 1
        if not self._calls:
            self._is_idle.set()

    async def _call_function(self, entry: ActiveDelivery) -> None:
        record, function = entry.record, self.trigger.function
        assert record is not None
        arguments: tuple[Any, ...] = (record,)
        if self.trigger.takes_delivery:
            arguments = record, Delivery(record, entry.count)
        with self._processing(record):
            if is_async(function):
                await function(*arguments)
            else:
                result = await self._workers.run(function, *arguments)
                if inspect.isawaitable(result):
                    await result

    def _fail(self, entry: ActiveDelivery, error: BaseException) -> None:
        if entry.attempt >= self._attempts_max or isinstance(error, TooOftenError):
            self._finish(entry, Verdict.DEAD_LETTER, error, holds_lanes=True)
            return
        delay_s = self.trigger.retry[entry.attempt - 1]
        _logger.warning(
            "trigger %s failed and tries again in %g s:"
            " topic=%s partition=%d offset=%d attempt=%d of=%d cause=%s",
            *(self.trigger.name, delay_s, entry.carrier.topic, entry.carrier.partition),
            *(entry.carrier.offset, entry.attempt, self._attempts_max, reason_of(error)),
            extra={"trigger": self.trigger.name, "cause": reason_of(error), **entry.shown},
        )
        self._delayed[entry.place] = entry
        self._finish(entry, Verdict.FAILED, error, delay_s=delay_s)

    def _finish(
        self,
        entry: ActiveDelivery,
        verdict: Verdict,
        error: BaseException | None = None,
        *,
        holds_lanes: bool = False,
        delay_s: float = 0.0,
    ) -> None:
        entry.record = None
        finished = Finished(entry.source, entry.carrier, entry.count, verdict)
        finished.key, finished.error, finished.delay_s = entry.key, error, delay_s
        finished.generation = entry.generation
        if entry.is_suspect:
            entry.settled = finished.settled = asyncio.Event()
        self._finished.append(finished)
        self._has_work.set()
        if holds_lanes:
            self._ready.extend(self._lanes.leave(entry))

    # --- from a call to the log ---

    async def _settle_all(self) -> None:
        while self._finished or not self._is_stopping or self._calls:
            await self._has_work.wait()
            self._has_work.clear()
            batch, self._finished = self._finished, []
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
            if finished.settled is not None:
                finished.settled.set()
            self._note_end(finished)
            if finished.verdict is Verdict.FAILED:
                self._timer.fire_in(finished.delay_s)
        if self._keys is not None and self._settling.horizon_us is not None:
            self._keys.expire(self._settling.horizon_us)
            self._settling.horizon_us = None
        self._is_woken.set()
        if any(finished.verdict is Verdict.FAILED for finished in batch):
            self._wake()

    def totals(self) -> Counters:
        """Return what was counted, with what the consumer passed over before it got here."""
        passed = sum(source.consumer.passed_over.count for source in self._sources)
        return replace(self.counters, passed_over=self.counters.passed_over + passed)

    def _note_end(self, finished: Finished) -> None:
        self.counters.count(finished.verdict)
        if finished.verdict is Verdict.LOST:
            # One that failed waits for a next try that another process makes.
            self._stop_waiting(finished.source, finished.carrier.partition)

    # --- partitions that come and go ---

    def _watcher(self, number: int) -> Watcher:
        def watch(event: AssignmentEvent) -> None:
            if isinstance(event, Assigned):
                self._has_new_partitions = True
            elif self._loop is not None:
                # A loop that is closed has nothing left to forget.
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._forget, number, event.partition)

        return watch

    def _forget(self, number: int, partition: int) -> None:
        self._stop_waiting(self._sources[number], partition)
        self.begin_ready()

    def _stop_waiting(self, source: Source, partition: int) -> None:
        """Drop what waits for its next try: that is another process's to make."""
        for place, entry in tuple(self._delayed.items()):
            if entry.source is source and entry.carrier.partition == partition:
                del self._delayed[place]
                self._ready.extend(self._lanes.leave(entry))

    # --- the end ---

    async def _finish_calls(self) -> None:
        if not self._calls:
            return
        self._is_idle.clear()
        waits = [
            asyncio.create_task(wait_until(self._clock, self._is_idle, self._stop.timeout_s)),
            asyncio.create_task(self._stop.is_urgent.wait()),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        left = [*self._calls]
        self._abandoned = [*self._calls.values()]
        for task in left:
            task.cancel()
        if left:
            _logger.warning(
                "trigger %s hands back %d records whose functions did not end in time",
                *(self.trigger.name, len(left)),
            )
            await asyncio.wait(left, timeout=CANCEL_TIMEOUT_S)

    def _release_unsettled(self) -> None:
        """Let nothing wait for what will never be settled."""
        for entry in self._calls.values():
            if entry.settled is not None:
                entry.settled.set()

    async def _finish_settling(self, settler: asyncio.Task[None]) -> None:
        self._has_work.set()
        if not settler.done():
            await asyncio.wait([settler], timeout=CANCEL_TIMEOUT_S)
        if not settler.done():
            settler.cancel()
            await asyncio.wait([settler])

    async def _hand_back(self) -> None:
        """Uncount what was taken and not begun; what a function still does stays counted."""
        for source in self._sources:
            running = [each.carrier for each in self._abandoned if each.source is source]
            try:
                await asyncio.to_thread(source.consumer.hand_back, running)
            except StrandlineError as error:
                _logger.debug("trigger %s leaves its counts: %s", self.trigger.name, error)
