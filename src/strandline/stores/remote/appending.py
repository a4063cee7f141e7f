"""Appends to a server: in order per partition, several in one request, stored once."""

import asyncio
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import Final, NamedTuple
from uuid import UUID

from strandline.clock import Clock
from strandline.log import wire
from strandline.log.loop_thread import LoopOutcome
from strandline.log.store import AppendRequest, Placement, dropped
from strandline.stores.remote.connection import ProblemError, RemoteConnection
from strandline.stores.remote.errors import (
    TransportError,
    error_of,
    is_dropped,
    problem_in,
    unknown,
)
from strandline.stores.remote.topics import RemoteTopic
from strandline.values import (
    REQUEST_RECORDS_MAX,
    ClosedError,
    Durability,
    InvalidError,
    StrandlineError,
    UnavailableError,
)
from strandline.values.names import LANE_PREFIX

_APPENDS_MAX: Final = 128
_BYTES_MAX: Final = 4 * 1024 * 1024
_THREADS: Final = 16
_APPLIED: Final = Durability.APPLIED


class _Waiting(NamedTuple):
    request: AppendRequest
    level: Durability
    timeout_s: float | None
    future: "Future[tuple[Placement, Durability]]"
    size_bytes: int


class RemoteAppends:
    """The appends of one open log."""

    def __init__(self, connection: RemoteConnection, bytes_max: int) -> None:
        self._connection = connection
        self._bytes_max = bytes_max
        # The prefix of its lanes' names; unique to this open log.
        self._name = f"{LANE_PREFIX}{connection.clock.new_id()}"
        self._lock = threading.Lock()
        self._lanes: dict[tuple[UUID, int], RemoteLane] = {}
        self.executor: Final = ThreadPoolExecutor(_THREADS, "strandline-remote")

    def append(
        self,
        topic: RemoteTopic,
        partition: int,
        request: AppendRequest,
        level: Durability,
        timeout_s: float | None,
        *,
        may_wait: bool,
    ) -> "RemoteOutcome":
        """Hand over an append; return once it has reached `level`, if `may_wait`."""
        lane = self._lane(topic, partition)
        future: Future[tuple[Placement, Durability]] = Future()
        size, count = sum(each.size_bytes for each in request.drafts), len(request.drafts)
        if size > self._bytes_max or count > REQUEST_RECORDS_MAX:
            raise InvalidError(
                "these values are too large for one request, append fewer at a time",
                bytes=size,
                bytes_max=self._bytes_max,
                values=count,
                values_max=REQUEST_RECORDS_MAX,
            )
        waiting = _Waiting(request, level, timeout_s, future, size)
        is_first = lane.put(waiting)
        if is_first and may_wait:
            lane.drain()
        elif is_first:
            self.executor.submit(lane.drain)
        outcome = RemoteOutcome(future, lane, self._connection.clock)
        if may_wait:
            lane.settle(waiting)
            outcome.wait(level, timeout_s)
        return outcome

    def close(self) -> None:
        """Finish waiting appends."""
        self.executor.shutdown(wait=True, cancel_futures=False)

    def _lane(self, topic: RemoteTopic, partition: int) -> "RemoteLane":
        place = topic.topic.id, partition
        with self._lock:
            lane = self._lanes.get(place)
            if lane is None:
                name = f"{self._name}.{len(self._lanes)}"
                lane = self._lanes[place] = RemoteLane(self._connection, topic, partition, name)
            return lane


class RemoteLane:
    """The write path of one partition. One request at a time, with all waiting appends."""

    def __init__(
        self, connection: RemoteConnection, topic: RemoteTopic, partition: int, name: str
    ) -> None:
        self._connection = connection
        self.topic = topic
        self.partition = partition
        self._lock = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self._is_draining = False
        self._name, self._next_sequence = name, 0

    def put(self, waiting: _Waiting) -> bool:
        """Queue an append; return whether its caller must start the sending."""
        with self._lock:
            self._connection.state.check()
            self._queue.append(waiting)
            is_first = not self._is_draining
            self._is_draining = True
            return is_first

    def drain(self) -> None:
        """Send waiting appends until there are none."""
        while batch := self._taken():
            try:
                self._send(batch)
            except BaseException as error:
                for each in batch:
                    if not each.future.done():
                        each.future.set_exception(unknown(f"{type(error).__name__}: {error}"))
                if not isinstance(error, Exception):
                    with self._lock:
                        rest, self._is_draining = list(self._queue), False
                        self._queue.clear()
                    for each in rest:
                        each.future.set_exception(self._error_for(each, _not_sent("interrupted")))
                    raise

    def settle(self, waiting: _Waiting) -> None:
        """Withdraw an append that was not sent in time, with UnavailableError."""
        if waiting.timeout_s is None or self._done_within(waiting):
            return
        with self._lock:
            if waiting in self._queue:
                self._queue.remove(waiting)
                raise UnavailableError(
                    "the server did not take it in time", write=waiting.request, url=self._url
                )
        # It was sent, and its outcome is unknown.

    def _done_within(self, waiting: _Waiting) -> bool:
        done = threading.Event()
        waiting.future.add_done_callback(lambda _: done.set())
        return self._connection.clock.wait(done, waiting.timeout_s)

    @property
    def _url(self) -> str:
        return self._connection.url

    def sync(self) -> None:
        """Make durable what was appended."""
        call = wire.PartitionCall(self.topic.topic.id, self.partition)
        self._connection.call("sync", call, wire.DoneReturn)

    def _taken(self) -> list[_Waiting]:
        with self._lock:
            batch: list[_Waiting] = []
            size = count = 0
            while self._queue and len(batch) < _APPENDS_MAX:
                size += self._queue[0].size_bytes
                count += len(self._queue[0].request.drafts)
                if batch and (size > _BYTES_MAX or count > REQUEST_RECORDS_MAX):
                    break
                batch.append(self._queue.popleft())
            self._is_draining = bool(batch)
            return batch

    def _send(self, batch: list[_Waiting]) -> None:
        appends = [self._wire(each) for each in batch]
        call = wire.AppendCall(self.topic.topic.id, self.partition, appends)
        try:
            answer = self._answer(wire.encode(call))
        except (ProblemError, StrandlineError) as error:
            for each in batch:
                each.future.set_exception(self._error_for(each, error))
            return
        for each, sent, outcome in zip(batch, appends, answer.outcomes, strict=True):
            self._settle(each, sent, outcome)

    def _answer(self, body: bytes) -> wire.AppendReturn:
        """Return the answer to a request, sent as often as needed.

        UnknownError if an earlier try may have been executed; otherwise UnavailableError.
        """
        was_sent = False
        for pause in self._connection.tries():
            try:
                return self._connection.send("append", body, wire.AppendReturn)
            except TransportError as error:
                was_sent = was_sent or error.was_sent
                if not self._rests(pause):
                    if was_sent:
                        raise unknown(str(error)) from error
                    raise _not_sent(str(error)) from error
            except StrandlineError as error:
                if was_sent:
                    raise unknown(str(error)) from error
                raise
        raise AssertionError

    def _error_for(self, waiting: _Waiting, error: Exception) -> StrandlineError:
        """Return the error for one of several appends that failed together."""
        found = self._error(error) if isinstance(error, ProblemError) else copy(error)
        assert isinstance(found, StrandlineError)
        if isinstance(found, UnavailableError):
            found.write = waiting.request
        return found

    def _rests(self, pause: float | None) -> bool:
        try:
            return self._connection.rest(pause)
        except ClosedError:
            return False

    def _wire(self, waiting: _Waiting) -> wire.WireAppend:
        """Return an append with an identity: its own, or the next of this lane."""
        request = waiting.request
        sent = wire.wire_append(request, int(waiting.level), waiting.timeout_s)
        if not request.has_identity:
            count = len(request.drafts)
            sent.producer = self._name
            sent.sequences = list(range(self._next_sequence, self._next_sequence + count))
            self._next_sequence += count
        return sent

    def _settle(self, waiting: _Waiting, sent: wire.WireAppend, outcome: wire.WireOutcome) -> None:
        if outcome.problem is not None:
            problem = ProblemError(problem_in(outcome.problem, 500))
            waiting.future.set_exception(self._error_for(waiting, problem))
            return
        placement = wire.placement_of(outcome)
        if sent.producer == self._name and placement.originals:
            # An earlier try has stored it: its caller must not see a repeat.
            first = placement.originals[0]
            placement = Placement(first.offset, first.timestamp_us)
        waiting.future.set_result((placement, Durability(outcome.level)))

    def _error(self, error: ProblemError) -> StrandlineError:
        if is_dropped(error.problem):
            return dropped(self.topic.topic)
        return error_of(error.problem, self._connection.url)


def _not_sent(reason: str) -> UnavailableError:
    return UnavailableError("the server does not answer, try again later", reason=reason)


class RemoteOutcome:
    """Implements Outcome."""

    def __init__(
        self, future: "Future[tuple[Placement, Durability]]", lane: RemoteLane, clock: Clock
    ) -> None:
        self._future = future
        self._lane = lane
        # LoopOutcome knows how to wait for a future; the result includes the level.
        self._inner = LoopOutcome(future, _APPLIED, clock)  # type: ignore[arg-type]
        self._is_synced = False

    @property
    def is_settled(self) -> bool:
        """See Outcome."""
        return self._inner.is_settled

    @property
    def level(self) -> Durability | None:
        """See Outcome."""
        if self._inner.level is None:
            return None
        return Durability.DURABLE if self._is_synced else self._future.result()[1]

    def result(self) -> Placement:
        """See Outcome."""
        return _placement(self._inner.result())

    def wait(self, level: Durability = _APPLIED, timeout_s: float | None = None) -> Placement:
        """See Outcome."""
        placement = _placement(self._inner.wait(level, timeout_s))
        if (self.level or level) < level:
            self._lane.sync()
            self._is_synced = True
        return placement

    async def wait_on_loop(
        self, level: Durability = _APPLIED, timeout_s: float | None = None
    ) -> Placement:
        """See Outcome."""
        placement = _placement(await self._inner.wait_on_loop(level, timeout_s))
        if (self.level or level) < level:
            await asyncio.get_running_loop().run_in_executor(None, self._lane.sync)
            self._is_synced = True
        return placement


def _placement(found: object) -> Placement:
    assert isinstance(found, tuple)
    placement = found[0]
    assert isinstance(placement, Placement)
    return placement
