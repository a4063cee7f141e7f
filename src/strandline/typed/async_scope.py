"""A log as one tenant may see it, for an event loop."""

from functools import partial
from typing import Any, Final, Literal, Unpack, overload

from strandline.log import AsyncLog, AsyncReceipt, Value
from strandline.log.off_loop import AsyncFace, Opening, in_pages, in_thread, off_loop
from strandline.subscriptions import Marker
from strandline.subscriptions.start import Starts
from strandline.typed.async_subscription import AsyncScopedSubscription
from strandline.typed.catalogue import AnyTopic
from strandline.typed.delivered import Delivered
from strandline.typed.scope import PublishTerms, Scope
from strandline.values import EARLIEST, Tenant


class AsyncScope(AsyncFace[Scope]):
    """A `Scope` for an event loop; `AsyncLog.scope` returns it."""

    def __init__(self, blocking: Scope, log: AsyncLog) -> None:
        super().__init__(blocking)
        self._log = log

    @property
    def tenant(self) -> Tenant | None:
        """The scope's tenant; None for the global scope."""
        return self._blocking.tenant

    register: Final = off_loop(Scope.register)
    topic: Final = off_loop(Scope.topic)
    topics: Final = off_loop(Scope.topics)
    drop: Final = off_loop(Scope.drop)
    evolve: Final = off_loop(Scope.evolve)

    async def publish(
        self, name: AnyTopic, value: Value, *, key: str | None = None, **terms: Unpack[PublishTerms]
    ) -> AsyncReceipt:
        """Append one record, the tenant's, and return as `Scope.publish` does."""
        topic, ready, tenant = await in_thread(self._blocking._ready, name, value)
        return await self._log.append(topic, ready, key=key, tenant=tenant, **terms)

    publish_many: Final = off_loop(Scope.publish_many)

    @overload
    def subscribe(
        self,
        name: AnyTopic,
        *,
        where: str = ...,
        start: Starts = ...,
        consumer: str | None = ...,
        version: int | None = ...,
        markers: Literal[False] = ...,
        durable_only: bool = ...,
        read_ahead: int | None = ...,
    ) -> Opening[AsyncScopedSubscription[Delivered]]: ...

    @overload
    def subscribe(
        self,
        name: AnyTopic,
        *,
        where: str = ...,
        start: Starts = ...,
        consumer: str | None = ...,
        version: int | None = ...,
        markers: Literal[True],
        durable_only: bool = ...,
        read_ahead: int | None = ...,
    ) -> Opening[AsyncScopedSubscription[Delivered | Marker]]: ...

    def subscribe(
        self,
        name: AnyTopic,
        *,
        where: str = "",
        start: Starts = EARLIEST,
        consumer: str | None = None,
        version: int | None = None,
        markers: bool = False,
        durable_only: bool = False,
        read_ahead: int | None = None,
    ) -> Opening[AsyncScopedSubscription[Any]]:
        """Read what the tenant sees of a topic from `start` on. As `Scope.subscribe`."""
        subscribe: Any = self._blocking.subscribe
        make = partial(
            subscribe,
            name,
            where=where,
            start=start,
            consumer=consumer,
            version=version,
            markers=markers,
            durable_only=durable_only,
            read_ahead=read_ahead,
        )
        return Opening(make, AsyncScopedSubscription[Any])

    replay: Final = in_pages(Scope.replay)
    consumers: Final = off_loop(Scope.consumers)
