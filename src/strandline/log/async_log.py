"""A log for an event loop: the same names, to be awaited. See design 0081."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, Unpack, overload
from uuid import UUID

from strandline.log.appending import append_many_warm, append_on_loop, append_warm, check_values
from strandline.log.async_reading import AsyncBatches, AsyncWatch
from strandline.log.async_receipts import AsyncReceipt, AsyncReceipts
from strandline.log.async_transaction import AsyncTransaction
from strandline.log.broker import announced
from strandline.log.early_looks import EarlyLooks
from strandline.log.handed_over import AppendQueue, HandedOver
from strandline.log.log import Log
from strandline.log.off_loop import (
    AsyncFace,
    BoundThread,
    Opening,
    bound_thread,
    in_pages,
    in_thread,
    off_loop,
    opens,
    to_its_end,
)
from strandline.log.parts import check_log
from strandline.log.ranges import ReadLimits
from strandline.log.receipts import Receipt, Receipts, first_of
from strandline.log.results import TopicName, Value
from strandline.log.terms import AppendTerms, terms_of
from strandline.values import (
    Durability,
    Event,
    InvalidError,
    Mode,
    Record,
    StrandlineError,
    Topic,
)
from strandline.values.payloads import EventOptions
from strandline.writes.loops import check_on_asyncio

if TYPE_CHECKING:
    from strandline.scans import ScanOptions
    from strandline.subscriptions import (
        AsyncConsumer,
        AsyncSharedConsumer,
        AsyncSubscription,
        Marker,
    )
    from strandline.subscriptions.options import ConsumerOptions, QueueOptions, SubscribeOptions
    from strandline.typed import AsyncScope

MadeT = TypeVar("MadeT", Receipt, Receipts)


class AsyncLog(AsyncFace[Log]):
    """A `Log` for an event loop: `async with open(…) as log`, or over one that is open.

    Each call has the name and the parameters of the blocking one, and does the same; blocking
    work runs in a thread. `append` and `append_many` hand over the values at once, and return
    receipts to be awaited. A call that opens something is awaited or entered with
    `async with`. A cancelled call takes effect completely or not at all. Tasks may share it.
    """

    def __init__(self, blocking: Log) -> None:
        check_log(blocking)
        given: object = blocking
        if isinstance(given, AsyncLog):
            raise InvalidError("this is an async log already, use it as it is", log=repr(blocking))
        super().__init__(blocking)
        #: For each topic that had to be looked up: the appends made meanwhile.
        self._queues: dict[TopicName, AppendQueue] = {}
        self._looks = looks = EarlyLooks(blocking._appends.look_at)
        #: What the core looks at before an append, and makes of it: see core.pyi.
        self._around: Final = (
            *(self._queues, looks.used, looks.note, bound_thread.get, check_on_asyncio),
            AsyncReceipt,
        )

    @property
    def id(self) -> UUID:
        """The log's identity, for as long as its storage lives."""
        return self._blocking.id

    @property
    def mode(self) -> Mode:
        """What the log was opened for."""
        return self._blocking.mode

    @property
    def durability_max(self) -> Durability:
        """The highest level that a record can reach here."""
        return self._blocking.durability_max

    @property
    def queue_depth(self) -> int:
        """How many records a subscription holds in memory by default."""
        return self._blocking.queue_depth

    # --- topics ---

    create_topic: Final = off_loop(Log.create_topic)
    topic: Final = off_loop(Log.topic)
    topics: Final = off_loop(Log.topics)
    tenants: Final = off_loop(Log.tenants)
    describe_topic: Final = off_loop(Log.describe_topic)
    change_retention: Final = off_loop(Log.change_retention)
    add_partitions: Final = off_loop(Log.add_partitions)
    declare_payload: Final = off_loop(Log.declare_payload)
    set_quota: Final = off_loop(Log.set_quota)
    quotas: Final = off_loop(Log.quotas)
    drop_topic: Final = off_loop(Log.drop_topic)

    # --- writing ---

    def event(self, kind: str, payload: object = None, **given: Unpack[EventOptions]) -> Event:
        """Return an event whose payload was encoded with the log's `encoder`. See `Event`."""
        return self._blocking.event(kind, payload, **given)

    def append(
        self,
        topic: TopicName,
        value: Value,
        *,
        key: str | None = None,
        **terms: Unpack[AppendTerms],
    ) -> AsyncReceipt:
        """Hand one record over, and return a receipt: awaited, it returns as `Log.append` does.

        The record is handed over whether the receipt is awaited or not, in the order of the
        calls. Awaiting the receipt raises any error; if no task awaits it, the error is logged.
        """
        log = self._blocking
        if key is None and log._appenders is not None:
            try:
                warm: AsyncReceipt = append_on_loop(
                    log._appenders, topic, value, terms, self._around
                )
            except StrandlineError as error:
                check_on_asyncio()
                return AsyncReceipt(HandedOver.failed(error))
            if warm is not NotImplemented:
                return warm
        check_on_asyncio()
        hand_over = partial(self._handed_over, log._appends.append, topic, value, key, terms)
        if self._must_queue(topic):
            make = partial(log.append, topic, value, key=key, **terms)
            return AsyncReceipt(*self._queued(topic, make, hand_over))
        try:
            receipt = hand_over()
        except StrandlineError as error:
            return AsyncReceipt(HandedOver.failed(error))
        if log._announcer is not None:
            log._announcer.announce(topic, receipt)
        return AsyncReceipt(receipt)

    def append_many(
        self,
        topic: TopicName,
        values: Iterable[Value],
        *,
        keys: Sequence[str | None] | None = None,
        **terms: Unpack[AppendTerms],
    ) -> AsyncReceipts:
        """Hand records over as `append` does. Awaiting the receipts does what `append_many` does.

        If one partition refuses its records, those of later partitions may still be stored;
        each receipt has the outcome of its record.
        """
        check_on_asyncio()
        log = self._blocking
        each, own = check_values(values, keys)
        hand_over = partial(self._handed_over, log._appends.append_many, topic, each, own, terms)
        if self._must_queue(topic):
            make = partial(log.append_many, topic, each, keys=own, **terms)
            return AsyncReceipts(len(each), *self._queued(topic, make, hand_over))
        try:
            receipts = hand_over()
        except StrandlineError as error:
            return AsyncReceipts(len(each), HandedOver.failed(error))
        return AsyncReceipts(len(each), announced(log._announcer, topic, receipts))

    def transaction(self, connection: Any = None) -> AsyncTransaction:
        """Return a transaction for `async with`, which gives an `AsyncConnection`.

        As `Log.transaction`, with one thread for the whole block. A SQLite `connection` that
        you opened yourself needs `check_same_thread=False`.
        """
        return AsyncTransaction(partial(self._blocking.transaction, connection))

    trim: Final = off_loop(Log.trim)
    evict: Final = off_loop(Log.evict)
    erase: Final = off_loop(Log.erase)
    apply_retention: Final = off_loop(Log.apply_retention)
    seal: Final = off_loop(Log.seal)
    sync: Final = off_loop(Log.sync)
    flush: Final = off_loop(Log.flush)

    # --- reading ---

    read: Final = in_pages(Log.read)

    async def read_batches(
        self,
        topic: TopicName,
        partition: int,
        start: int,
        end: int | None = None,
        **limits: Unpack[ReadLimits],
    ) -> AsyncBatches:
        """Return the same records as `read`, as Arrow record batches. Raises the same errors."""
        read = self._blocking.read_batches
        return AsyncBatches(await in_thread(read, topic, partition, start, end, **limits))

    marks: Final = off_loop(Log.marks)
    offset_at: Final = off_loop(Log.offset_at)
    epochs: Final = off_loop(Log.epochs)
    segments: Final = off_loop(Log.segments)
    position: Final = off_loop(Log.position)
    resolve: Final = off_loop(Log.resolve)
    proof_head: Final = off_loop(Log.proof_head)
    verify: Final = off_loop(Log.verify)
    watch: Final = opens(Log.watch, AsyncWatch)

    # --- consumers ---

    register: Final = off_loop(Log.register)
    claim: Final = off_loop(Log.claim)
    ack: Final = off_loop(Log.ack)
    seek: Final = off_loop(Log.seek)
    cursor: Final = off_loop(Log.cursor)
    consumers: Final = off_loop(Log.consumers)
    delete_consumer: Final = off_loop(Log.delete_consumer)

    # --- the rooms above, from here ---

    @overload
    def subscribe(
        self,
        topic: TopicName | Sequence[TopicName],
        *,
        markers: Literal[True],
        **options: Unpack[SubscribeOptions],
    ) -> Opening[AsyncSubscription[Record | Marker]]: ...
    @overload
    def subscribe(
        self,
        topic: TopicName | Sequence[TopicName],
        *,
        markers: Literal[False] = ...,
        **options: Unpack[SubscribeOptions],
    ) -> Opening[AsyncSubscription[Record]]: ...
    def subscribe(
        self,
        topic: TopicName | Sequence[TopicName],
        *,
        markers: bool = False,
        **options: Unpack[SubscribeOptions],
    ) -> Opening[AsyncSubscription[Any]]:
        """Read topics from a start, and follow them as they grow. See `strandline.subscribe`."""
        from strandline.subscriptions import AsyncSubscription  # noqa: PLC0415 - A room above.

        make: Any = partial(self._blocking.subscribe, topic, markers=markers, **options)
        return Opening(make, AsyncSubscription)

    @overload
    def consumer(
        self, topic: TopicName, name: str, *, shared: Literal[True], **options: Unpack[QueueOptions]
    ) -> Opening[AsyncSharedConsumer]: ...
    @overload
    def consumer(
        self, topic: TopicName, name: str, **options: Unpack[ConsumerOptions]
    ) -> Opening[AsyncConsumer]: ...
    def consumer(
        self, topic: TopicName, name: str, *, shared: bool = False, **options: Any
    ) -> Opening[Any]:
        """Return the consumer of this name: see Consumer, and SharedConsumer if `shared`."""
        from strandline.subscriptions import (  # noqa: PLC0415 - A room above.
            AsyncConsumer,
            AsyncSharedConsumer,
        )

        opened: Callable[[], Any] = partial(
            self._blocking.consumer, topic, name, shared=shared, **options
        )
        return Opening(opened, AsyncSharedConsumer if shared else AsyncConsumer)

    async def scan(self, topic: TopicName, **options: Unpack[ScanOptions]) -> AsyncBatches:
        """Return the rows that a topic holds now, as `Log.scan` does; `.blocking` is the scan."""
        return AsyncBatches(await in_thread(self._blocking.scan, topic, **options))

    def scope(self, tenant: str | None = None) -> AsyncScope:
        """Return the log as this tenant may see it, as `Log.scope` does."""
        from strandline.typed import AsyncScope  # noqa: PLC0415 - A room above.

        return AsyncScope(self._blocking.scope(tenant), self)

    # --- the whole log ---

    describe: Final = off_loop(Log.describe)
    metrics: Final = off_loop(Log.metrics)

    async def close(self) -> None:
        """Close this user's handle on the log, after pending appends. As `Log.close`."""
        self._looks.close()
        try:
            for queue in tuple(self._queues.values()):
                await queue.finish()
        finally:
            await to_its_end(self._blocking.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._blocking!r}"

    # --- appends that have to be made in a thread ---

    def _must_queue(self, topic: TopicName | object) -> bool:
        """Whether an append may block: its topic must be looked up, or it is in a transaction."""
        if not isinstance(topic, str | Topic):
            # An unhashable topic raises at once.
            return False
        bound, queue = bound_thread.get(), self._queues.get(topic)
        is_inside = bound is not None and bound.executor is not None
        is_behind = queue is not None and queue.last is not None
        return is_inside or is_behind or not self._blocking._appends.knows(topic)

    def _handed_over(
        self,
        append: Callable[..., MadeT],
        topic: TopicName,
        value: Any,
        key: Any,
        terms: AppendTerms,
    ) -> MadeT:
        """Append without a wait; the outcome may still be open."""
        self._blocking._store.check_open()
        return append(topic, value, key, terms_of(terms), may_wait=False)

    def _queued(
        self, topic: TopicName, append: Callable[[], MadeT], hand_over: Callable[[], MadeT]
    ) -> tuple[HandedOver[MadeT], BoundThread | None]:
        """Make an append in a thread; return it, and the transaction that it is part of."""
        bound = bound_thread.get()
        # Keep the caller's context: it may hold a tracing span.
        run = copy_context().run
        if bound is None or (executor := bound.executor) is None:
            if isinstance(topic, str):
                self._looks.forget(topic)
            make = partial(self._make, topic, append, hand_over, asyncio.get_running_loop())
            return self._queues.setdefault(topic, AppendQueue()).put(partial(run, make)), None
        handed = HandedOver[MadeT]()
        executor.submit(handed.make, partial(run, append))
        return handed, bound

    def _make(
        self,
        topic: TopicName,
        append: Callable[[], MadeT],
        hand_over: Callable[[], MadeT],
        loop: asyncio.AbstractEventLoop,
    ) -> MadeT:
        """Append in a thread. The topic is looked up first, unless an append queued before did.

        In that case nothing is waited for: appends queued behind would each wait for a sync.
        """
        log = self._blocking
        if not log._appends.is_fresh(topic):
            return append()
        made = hand_over()
        if log._announcer is not None:
            # A closed loop cannot carry the wake-up; readers poll.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(log._announcer.announce, topic, made)
        return made


def append_now(log: AsyncLog, topic: str, value: Value, terms: AppendTerms) -> Receipt | None:
    """Append on the running loop if the core can do it at once; otherwise None, nothing done.

    For rooms above. The receipt has reached its level, unless that needs a sync first: see
    `when_reached`.
    """
    made: Receipt | None = _made_now(append_warm, log, topic, value, terms)
    return made


def append_many_now(
    log: AsyncLog, topic: str, events: list[Event], terms: AppendTerms
) -> Receipt | None:
    """Append several as `append_now` does; return the receipt of the first."""
    made: Receipts | None = _made_now(append_many_warm, log, topic, events, terms)
    return None if made is None else first_of(made)


def _made_now(append: Any, log: AsyncLog, topic: str, value: Any, terms: AppendTerms) -> Any:
    appenders, queue = log._blocking._appenders, log._queues.get(topic)
    # Only if no append to the topic is queued and no transaction is open.
    if appenders is None or not (queue is None or queue.last is None) or bound_thread.get():
        return None
    made = append(appenders, topic, value, terms, False)
    if made is NotImplemented:
        return None
    if topic not in log._looks.used:
        log._looks.note(topic)
    return made
