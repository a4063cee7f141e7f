"""A view for an event loop."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, Unpack, overload

from strandline.log import Value
from strandline.log.off_loop import AsyncFace, closes, off_loop
from strandline.values import Partition
from strandline.views.health import ViewHealth
from strandline.views.live_view import LiveView
from strandline.views.pending import PendingView
from strandline.views.publishing import PUBLISH_TIMEOUT_S, AppendOptions, Publication
from strandline.views.view import StateT

AnswerT = TypeVar("AnswerT")
DefaultT = TypeVar("DefaultT")


class AsyncLiveView(AsyncFace[LiveView[StateT]], Generic[StateT]):
    """A `LiveView` for an event loop: `async with LiveView(…) as view`.

    Calls that wait or read the log are awaited; those that answer from memory return at once,
    after at most one `apply`. A cancelled publication is stored once or not at all.
    """

    reconcile: Final = off_loop(LiveView[StateT].reconcile)
    rebuild: Final = off_loop(LiveView[StateT].rebuild)
    assigned: Final = off_loop(LiveView[StateT].assigned)
    lag: Final = off_loop(LiveView[StateT].lag)
    save: Final = off_loop(LiveView[StateT].save)
    close: Final = closes(LiveView[StateT].close)

    @overload
    def read(
        self,
        partition: int,
        query: Callable[[StateT], AnswerT],
        *,
        min_offset: int | None = ...,
    ) -> AnswerT | None: ...
    @overload
    def read(
        self,
        partition: int,
        query: Callable[[StateT], AnswerT],
        *,
        default: DefaultT,
        min_offset: int | None = ...,
    ) -> AnswerT | DefaultT: ...
    def read(
        self,
        partition: int,
        query: Callable[[StateT], Any],
        *,
        default: Any = None,
        min_offset: int | None = None,
    ) -> Any:
        """Return `query(state)` of a ready partition, at once. As `LiveView.read`."""
        return self._blocking.read(partition, query, default=default, min_offset=min_offset)

    def partition_of(self, key: str) -> Partition:
        """Return the partition of the records with this key."""
        return self._blocking.partition_of(key)

    def applied(self, partition: int) -> int:
        """Return the last offset applied; -1 if there is none, or it is not assigned."""
        return self._blocking.applied(partition)

    def committed(self, partition: int) -> int:
        """Return the last offset in the snapshot, after which a restart continues; -1 if none."""
        return self._blocking.committed(partition)

    def is_ready(self, partition: int) -> bool:
        """Return whether `read` would answer from the state."""
        return self._blocking.is_ready(partition)

    def health(self) -> ViewHealth:
        """Return the view's health, without reading the log."""
        return self._blocking.health()

    async def wait_applied(
        self, partition: int, offset: int, timeout_s: float | None = None
    ) -> None:
        """Return once the record at `offset` is applied. As `LiveView.wait_applied`."""
        await self._blocking._wait_applied_on_loop(partition, offset, timeout_s)

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Return once every assigned partition is ready. As `LiveView.wait_ready`."""
        await self._blocking._wait_ready_on_loop(timeout_s)

    async def publish(
        self,
        value: Value,
        *,
        timeout_s: float = PUBLISH_TIMEOUT_S,
        **options: Unpack[AppendOptions],
    ) -> Publication:
        """Append to the topic, and return once this view has applied the record.

        As `LiveView.publish`.
        """
        return await self._blocking._publish_on_loop(value, timeout_s, options)

    async def __aenter__(self) -> "AsyncLiveView[StateT]":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class AsyncPendingView(AsyncFace[PendingView[StateT]], Generic[StateT]):
    """A `PendingView` for an event loop: its view is an `AsyncLiveView`."""

    def __init__(self, blocking: PendingView[StateT] | None = None) -> None:
        super().__init__(PendingView[StateT]() if blocking is None else blocking)

    def become(self, view: AsyncLiveView[StateT]) -> AsyncLiveView[StateT] | None:
        """Forward to `view` from now on, and return the previous one."""
        before = self._blocking.become(view.blocking)
        return None if before is None else AsyncLiveView(before)

    reconcile: Final = off_loop(PendingView[StateT].reconcile)
    rebuild: Final = off_loop(PendingView[StateT].rebuild)
    assigned: Final = off_loop(PendingView[StateT].assigned)
    lag: Final = off_loop(PendingView[StateT].lag)
    save: Final = off_loop(PendingView[StateT].save)

    def read(
        self,
        partition: int,
        query: Callable[[StateT], Any],
        *,
        default: Any = None,
        min_offset: int | None = None,
    ) -> Any:
        """See AsyncLiveView."""
        return self._blocking.read(partition, query, default=default, min_offset=min_offset)

    def partition_of(self, key: str) -> Partition:
        """See AsyncLiveView."""
        return self._blocking.partition_of(key)

    def applied(self, partition: int) -> int:
        """See AsyncLiveView."""
        return self._blocking.applied(partition)

    def committed(self, partition: int) -> int:
        """See AsyncLiveView."""
        return self._blocking.committed(partition)

    def is_ready(self, partition: int) -> bool:
        """See AsyncLiveView."""
        return self._blocking.is_ready(partition)

    def health(self) -> ViewHealth:
        """See AsyncLiveView."""
        return self._blocking.health()

    async def wait_applied(
        self, partition: int, offset: int, timeout_s: float | None = None
    ) -> None:
        """See AsyncLiveView."""
        await self._there(partition).wait_applied(partition, offset, timeout_s)

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """See AsyncLiveView."""
        await self._there().wait_ready(timeout_s)

    async def publish(
        self,
        value: Value,
        *,
        timeout_s: float = PUBLISH_TIMEOUT_S,
        **options: Unpack[AppendOptions],
    ) -> Publication:
        """See AsyncLiveView."""
        return await self._there().publish(value, timeout_s=timeout_s, **options)

    def _there(self, partition: int = -1) -> AsyncLiveView[StateT]:
        return AsyncLiveView(self._blocking._there(partition))
