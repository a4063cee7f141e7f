"""Hints from a server: a request waits there until a partition grows."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection
from typing import Final

import httpx2
import msgspec

from strandline.log import wire
from strandline.log.loop_thread import LoopThread
from strandline.log.watches import Watches
from strandline.stores.remote.connection import RemoteConnection
from strandline.stores.remote.topics import RemoteTopic
from strandline.stores.topic_ends import TopicEnd, topic_end

_WAIT_S: Final = 20.0
_PAUSE_S: Final = 0.2
_OK: Final = 200


class RemoteWatches(Watches[TopicEnd, RemoteTopic]):
    """The watches of a log on a server."""

    def __init__(self, connection: RemoteConnection, end: Callable[[TopicEnd], int | None]) -> None:
        super().__init__(connection.clock, topic_end, end, lambda: RemoteChanges(connection))


class RemoteChanges:
    """Implements ChangeSource: one request for each kind of mark waits on the server.

    Their answers are collected, and `wait` returns them.
    """

    is_for_readers = False

    def __init__(self, connection: RemoteConnection) -> None:
        self._loop = LoopThread()
        self._changes = threading.Condition()
        self._changed: set[TopicEnd] = set()
        self._is_woken = False
        self._askers = {
            durable_only: _Asker(connection, self._report, durable_only=durable_only)
            for durable_only in (False, True)
        }

    def add(self, place: TopicEnd, /) -> None:
        self._loop.run(self._askers[place.durable_only].add(place))

    def remove(self, place: TopicEnd, /) -> None:
        self._loop.run(self._askers[place.durable_only].remove(place))

    def wait(self, timeout_s: float | None = None, /) -> Collection[TopicEnd]:
        with self._changes:
            if not self._changed and not self._is_woken:
                self._changes.wait(timeout_s)
            self._is_woken = False
            changed, self._changed = self._changed, set()
            return changed

    def found(self) -> None:
        """The server answers at once, so there is no polling to adjust."""

    def wake(self) -> None:
        with self._changes:
            self._is_woken = True
            self._changes.notify_all()

    def close(self) -> None:
        self._loop.close()

    def _report(self, places: Collection[TopicEnd]) -> None:
        with self._changes:
            self._changed.update(places)
            self._changes.notify_all()


class _Asker:
    """Repeatedly asks the server where partitions end. For one event loop."""

    def __init__(
        self,
        connection: RemoteConnection,
        report: Callable[[Collection[TopicEnd]], None],
        *,
        durable_only: bool,
    ) -> None:
        self._connection = connection
        self._report = report
        self._durable_only = durable_only
        self._seen: dict[TopicEnd, int] = {}
        self._is_outdated = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def add(self, place: TopicEnd) -> None:
        """Include this partition in the requests."""
        # The reader reads after this returns, so any end will do.
        self._seen[place] = 0
        self._is_outdated.set()
        if self._task is None:
            self._task = asyncio.ensure_future(self._keep_asking())

    async def remove(self, place: TopicEnd) -> None:
        """Remove it from the requests."""
        self._seen.pop(place, None)

    async def _keep_asking(self) -> None:
        async with self._connection.new_client() as client:
            while True:
                if not self._seen:
                    await self._is_outdated.wait()
                self._is_outdated.clear()
                asking = asyncio.ensure_future(self._ask(client))
                changing = asyncio.ensure_future(self._is_outdated.wait())
                both = {asking, changing}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for each in both:
                    each.cancel()
                await asyncio.gather(*both, return_exceptions=True)

    async def _ask(self, client: httpx2.AsyncClient) -> None:
        seen = [(place.topic.id, place.partition, end) for place, end in self._seen.items()]
        body = wire.encode(wire.WatchCall(seen, self._durable_only, _WAIT_S))
        try:
            answer = await client.post("watch", content=body)
            if answer.status_code == _OK:
                self._pass_on(wire.decode(wire.WatchReturn, answer.content))
                return
        except (httpx2.TransportError, msgspec.MsgspecError):
            pass
        # The readers read by themselves, and get the error.
        self._report(tuple(self._seen))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await asyncio.Event().wait()

    def _pass_on(self, answer: wire.WatchReturn) -> None:
        ends = {(topic_id, number): end for topic_id, number, end in answer.ends}
        changed = []
        for place in tuple(self._seen):
            end = ends.get((place.topic.id, place.partition))
            if end is None:
                continue
            changed.append(place)
            if end < 0:
                del self._seen[place]
            else:
                self._seen[place] = end
        if changed:
            self._report(changed)
