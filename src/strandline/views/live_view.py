"""A view over a topic, kept up to date; it answers only from a state that has caught up."""

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeVar, Unpack, overload

from strandline.clock import Clock, SystemClock, deadline_in, seconds_left
from strandline.io import Io, SystemIo
from strandline.log import AsyncLog, Log, TopicName, Value, check_log, parts_of
from strandline.log.topic_lane import ROUTE_CHECK_S
from strandline.subscriptions.assignment import checked_place
from strandline.values import (
    ClosedError,
    InvalidError,
    NotReadyError,
    Partition,
    UnavailableError,
    partition_for_key,
)
from strandline.values.arguments import (
    check_flag,
    check_items,
    check_seconds,
    check_timeout,
    check_whole,
    whole,
)
from strandline.values.html import html_table
from strandline.values.names import check_text
from strandline.values.prompt import few, prompt_text
from strandline.views.fold import Fold, view_screen
from strandline.views.health import ViewHealth
from strandline.views.publishing import (
    PUBLISH_TIMEOUT_S,
    AppendOptions,
    Publication,
    adding_position,
    publication,
    settled_partition,
)
from strandline.views.pump import Pump, Request
from strandline.views.saving import SNAPSHOT_INTERVAL_S, Saving
from strandline.views.snapshot import SnapshotFile, binding_of
from strandline.views.view import StateT, View, check_view

if TYPE_CHECKING:
    from strandline.views import AsyncLiveView

CLOSE_TIMEOUT_S: Final = 60.0
"""How long closing waits for the pump by default."""

_NO_OFFSET: Final = sys.maxsize
"""Only becoming ready wakes these waiters; a wake-up per page would slow the pump."""

AnswerT = TypeVar("AnswerT")
DefaultT = TypeVar("DefaultT")


class LiveView(Generic[StateT]):
    """A `View` over one topic, with nothing assigned until `reconcile`.

    `read` has three outcomes: the default for a partition that is not assigned, NotReadyError,
    to be retried, for one that has not caught up, and an answer from a ready one. A partition
    that has stopped raises StoppedError, and a view whose pump has ended ClosedError.

    With `snapshot`, the path of a file, it is saved every `snapshot_interval_s` and
    by `close`, and a later view continues from there. `poison` decides about a record on which
    `apply` fails: "stop" its partition, or "quarantine" the record and continue. Any thread may
    make any call. `async with` gives an `AsyncLiveView` over this one; the snapshot is read
    before, on opening.
    """

    def __init__(
        self,
        log: Log | AsyncLog,
        topic: TopicName,
        view: View[StateT],
        *,
        snapshot: str | os.PathLike[str] | None = None,
        snapshot_interval_s: float = SNAPSHOT_INTERVAL_S,
        poison: Literal["stop", "quarantine"] = "stop",
        clock: Clock | None = None,
        io: Io | None = None,
    ) -> None:
        check_log(log)
        check_view(view)
        check_poison(poison)
        if snapshot is not None and not view.has_snapshots:
            raise InvalidError("a view with snapshots needs encode and decode", view=view.name)
        if not isinstance(view.version, int):
            raise InvalidError("the version of a view is a whole number", version=view.version)
        snapshot_interval_s = check_seconds(
            "snapshot_interval_s", snapshot_interval_s, allows_zero=False
        )
        self._log = log = log.blocking if isinstance(log, AsyncLog) else log
        self.topic: Final = log.topic(topic)
        """The topic of the view."""
        self._settings = log.describe_topic(self.topic).settings
        self._view = view
        self._screen = view_screen(log, self.topic, view)
        self._clock = clock or SystemClock()
        snapshots = None
        if snapshot is not None:
            binding = binding_of(log, self.topic, view)
            snapshots = SnapshotFile(io or SystemIo(), snapshot, binding, self._clock)
        self._saving = Saving(
            log, self.topic, view, snapshots, self._clock, interval_s=snapshot_interval_s
        )
        self._pump = Pump(
            log,
            self.topic,
            view,
            self._saving,
            self._clock,
            quarantines=poison == "quarantine",
            on_poll=partial(_follow_added, weakref.ref(self)),
        )
        self._reconciling = threading.Lock()
        self._folds: Mapping[int, Fold[StateT]] = {}
        self._turn = 0
        #: Whether all partitions were requested.
        self._is_whole = False
        self._counted_at = self._clock.monotonic()
        self._pid = os.getpid()
        # On another thread: the thread that runs the garbage collector may hold a lock of the log.
        stop = partial(self._pump.stop, save=False)
        self._finalizer = weakref.finalize(self, self._clock.call_later, 0.0, stop)
        self._finalizer.atexit = False

    # --- assignment ---

    def reconcile(self, partitions: Iterable[int]) -> None:
        """Assign exactly these partitions.

        New ones are folded from their snapshot on, and ready once they have applied their
        current records; released ones lose their state; others are unchanged. If these are all
        partitions, ones added to the topic later are assigned as well.
        """
        wanted = {int(self._place(each)) for each in check_items("partitions", partitions)}
        with self._reconciling:
            self._check_open()
            self._is_whole = len(wanted) == self._settings.partitions
            kept = {p: fold for p, fold in self._folds.items() if p in wanted}
            added = {p: self._fold(p) for p in sorted(wanted - kept.keys())}
            released = [fold for p, fold in self._folds.items() if p not in wanted]
            for fold in (*kept.values(), *added.values()):
                if fold.target is None and fold.ending is None:
                    self._pump.set_target(fold)
            self._folds = {**kept, **added}
            for fold in released:
                fold.release()
            self._pump.enter(tuple(added.values()))
            if released:
                self._pump.wake()

    def assigned(self) -> Sequence[Partition]:
        """Return the assigned partitions, ascending."""
        return [Partition(p) for p in sorted(self._folds)]

    def rebuild(self, partitions: Iterable[int] | None = None) -> None:
        """Drop states and snapshots, and fold again from the oldest stored record.

        For all assigned partitions, or for these; a stopped partition starts again, and
        quarantined records are tried again. Returns when the snapshots are removed.
        UnavailableError if they cannot be: folding has started over, but a restart might
        still find them.
        """
        given = None if partitions is None else check_items("partitions", partitions)
        with self._reconciling:
            self._check_open()
            chosen = set(self._folds) if given is None else {int(self._place(p)) for p in given}
            again = {p: self._fold(p) for p in sorted(chosen) if p in self._folds}
            old = [self._folds[p] for p in again]
            self._folds = {**self._folds, **again}
            for fold in old:
                fold.release()
            for fold in again.values():
                fold.origin = 0
                self._pump.set_target(fold)
            request = self._pump.request(lambda: self._saving.drop(chosen))
            self._pump.enter(tuple(again.values()))
        self._finish(request)

    # --- answers ---

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
        """Return `query(state)` of a ready partition, and `default` if it is not assigned.

        NotReadyError if it has not caught up, or has not applied `min_offset`. Waits for at
        most one `apply`. Nothing is applied to this partition while the query runs; the query
        must change nothing, and return nothing that `apply` changes later.
        """
        if not callable(query):
            raise InvalidError("a query is a function of the state", type=type(query).__name__)
        fold = self._folds.get(partition) if type(partition) is int else None
        if os.getpid() != self._pid:
            raise forked()
        if fold is None:
            fold = self._folds.get(self._place(partition))
        least = None if min_offset is None else check_whole("min_offset", min_offset, -1)
        return default if fold is None else fold.read(query, least)

    def partition_of(self, key: str) -> Partition:
        """Return the partition of the records with this key that are appended now."""
        return partition_for_key(check_text(key, "key"), self._routing_count())

    def applied(self, partition: int) -> int:
        """Return the last offset applied; -1 if there is none, or it is not assigned."""
        fold = self._folds.get(self._place(partition))
        return -1 if fold is None else fold.mark.value - 1

    def committed(self, partition: int) -> int:
        """Return the last offset in the snapshot, after which a restart continues; -1 if none."""
        return self._saving.committed(self._place(partition))

    def is_ready(self, partition: int) -> bool:
        """Return whether `read` would answer from the state."""
        fold = self._folds.get(self._place(partition))
        return fold is not None and fold.is_ready

    def lag(self) -> Mapping[Partition, int]:
        """Return for each assigned partition the number of records beyond `applied`."""
        return {
            Partition(p): max(0, self._log.marks(self.topic, p).high - fold.mark.value)
            for p, fold in sorted(self._folds.items())
        }

    def health(self) -> ViewHealth:
        """Return its health, without reading the log."""
        folds = sorted(self._folds.items())
        return ViewHealth(
            is_running=self._pump.is_running and os.getpid() == self._pid,
            cause=self._pump.cause,
            snapshot_fault=self._saving.fault,
            partitions={p: fold.health(self._saving.committed(p)) for p, fold in folds},
        )

    def _repr_html_(self) -> str:
        found = self.health()
        rows = [
            (number, each.readiness.value, each.applied, each.lag, len(each.quarantined))
            for number, each in found.partitions.items()
        ]
        state = "running" if found.is_running else "ended"
        header = ("partition", "state", "applied", "lag", "quarantined")
        title = f"View {self._view.name} of {self.topic.name}, {state}"
        return html_table(title, header, rows)

    # --- waiting ---

    def wait_applied(self, partition: int, offset: int, timeout_s: float | None = None) -> None:
        """Return once the record at `offset` is applied, so that reads see it.

        NotReadyError when the time is up. Raises at once: InvalidError if the partition is
        not assigned, and StoppedError or ClosedError if it has stopped. UnavailableError if
        it is released meanwhile.
        """
        fold, offset = self._assigned(partition), check_whole("offset", offset, -1)
        if not fold.wait(
            lambda: fold.mark.value > offset,
            offset + 1,
            deadline_in(self._clock, check_timeout(timeout_s)),
        ):
            raise NotReadyError(fold.partition, applied=fold.mark.value - 1, offset=offset)

    async def _wait_applied_on_loop(
        self, partition: int, offset: int, timeout_s: float | None
    ) -> None:
        fold, offset = self._assigned(partition), check_whole("offset", offset, -1)
        left_s = check_timeout(timeout_s)
        if not await fold.wait_on_loop(lambda: fold.mark.value > offset, offset + 1, left_s):
            raise NotReadyError(fold.partition, applied=fold.mark.value - 1, offset=offset)

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Return once every assigned partition is ready. Raises as `wait_applied`."""
        deadline = deadline_in(self._clock, check_timeout(timeout_s))
        for fold in tuple(self._folds.values()):
            if not fold.wait(lambda fold=fold: fold.is_ready, _NO_OFFSET, deadline):  # type: ignore[misc]
                raise NotReadyError(fold.partition, applied=fold.mark.value - 1)

    async def _wait_ready_on_loop(self, timeout_s: float | None) -> None:
        deadline = deadline_in(self._clock, check_timeout(timeout_s))
        for fold in tuple(self._folds.values()):
            left_s = seconds_left(self._clock, deadline)
            if not await fold.wait_on_loop(lambda fold=fold: fold.is_ready, _NO_OFFSET, left_s):  # type: ignore[misc]
                raise NotReadyError(fold.partition, applied=fold.mark.value - 1)

    # --- writing ---

    def publish(
        self,
        value: Value,
        *,
        timeout_s: float = PUBLISH_TIMEOUT_S,
        **options: Unpack[AppendOptions],
    ) -> Publication:
        """Append to the topic, and return once this view has applied the record.

        Options are those of the log's `append`; a record without a determined partition goes
        to an assigned one. Raises, before anything is stored: RefusedError if `check` refuses
        the value; InvalidError if its partition is not assigned; StoppedError or ClosedError
        if it would not be applied; and the errors of `append`. Raises when the record is
        stored: RefusedError if `apply` skipped it, StoppedError if `apply` failed on it,
        UnavailableError if it was not applied in time, or the partition was released.
        """
        fold = self._fold_for(value, options)
        timeout_s = check_seconds("timeout_s", timeout_s)
        deadline = self._clock.monotonic() + timeout_s
        with fold.outcomes.publishing(fold.mark.value):
            receipt = self._log.append(self.topic, value, timeout_s=timeout_s, **options)
            offset = receipt.offset
            with adding_position(receipt):
                met = fold.wait(lambda: fold.mark.value > offset, offset + 1, deadline)
            return publication(fold, receipt, is_applied=met)

    async def _publish_on_loop(
        self, value: Value, timeout_s: float, options: AppendOptions
    ) -> Publication:
        fold = self._fold_for(value, options)
        timeout_s = check_seconds("timeout_s", timeout_s)
        deadline = self._clock.monotonic() + timeout_s
        append = AsyncLog(self._log).append
        with fold.outcomes.publishing(fold.mark.value):
            appended = await append(self.topic, value, timeout_s=timeout_s, **options)
            receipt, offset = appended.blocking, appended.offset
            left_s = max(0.0, deadline - self._clock.monotonic())
            with adding_position(receipt):
                met = await fold.wait_on_loop(lambda: fold.mark.value > offset, offset + 1, left_s)
            return publication(fold, receipt, is_applied=met)

    # --- keeping and ending ---

    def save(self) -> None:
        """Write what has advanced. UnavailableError; InvalidError if `encode` gave no bytes."""
        self._check_open()
        self._finish(self._pump.request(self._pump.save))
        self._saving.check_saved()

    def close(self, *, save: bool = True, timeout_s: float | None = None) -> None:
        """Stop the pump, after a last snapshot if `save`. May be repeated.

        Ready partitions continue to answer from their last state. A snapshot that cannot be
        written loses nothing, since a restart replays what it lacks: it is logged as WARNING,
        shown by `health()`, and not raised; call `save` before to have it raised. InvalidError
        inside a query. UnavailableError if it outlives `timeout_s`, by default CLOSE_TIMEOUT_S.
        """
        check_flag("save", save)
        limit_s = CLOSE_TIMEOUT_S if timeout_s is None else check_timeout(timeout_s)
        if self._pump.is_running and any(each.is_queried_here for each in self._folds.values()):
            raise InvalidError("close the view after its query has returned", view=self._view.name)
        self._finalizer.detach()
        if os.getpid() != self._pid:
            return
        self._pump.stop(save=save)
        if not self._pump.join(limit_s):
            raise UnavailableError("the pump has not ended yet", view=self._view.name)

    def __repr__(self) -> str:
        ready = [number for number, fold in self._folds.items() if fold.is_ready]
        return prompt_text(
            "LiveView",
            *(self._view.name, self.topic.name),
            partitions=few(self._folds),
            ready=few(ready),
            closed=not self._pump.is_running,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> "AsyncLiveView[StateT]":
        from strandline.views import AsyncLiveView  # noqa: PLC0415 - Made of this.

        return AsyncLiveView(self)

    async def __aexit__(self, *exc: object) -> None:
        await (await self.__aenter__()).close()

    # --- inside ---

    def _fold_for(self, value: Value, options: AppendOptions) -> Fold[StateT]:
        """Return the record's fold; raise if the record would not be applied."""
        self._check_open()
        partition = settled_partition(value, options, self._routing_count())
        if partition is None:
            turns = sorted(self._folds) or [0]
            self._turn += 1
            partition = turns[self._turn % len(turns)]
        options["partition"] = partition
        fold = self._assigned(partition)
        fold.check_going()
        if fold.is_ready:
            # It may have started a replay meanwhile; then only `apply` decides.
            with contextlib.suppress(NotReadyError):
                fold.read(lambda state: self._view.check(state, value), None)
        return fold

    def _fold(self, partition: int) -> Fold[StateT]:
        return Fold(self._view, partition, self._clock, self._screen)

    def _assigned(self, partition: int) -> Fold[StateT]:
        if os.getpid() != self._pid:
            raise forked()
        fold = self._folds.get(self._place(partition))
        if fold is None:
            raise InvalidError(
                "this partition is not assigned to the view, reconcile first", partition=partition
            )
        return fold

    def _routing_count(self) -> int:
        """Return the current partition count used for routing."""
        if self._clock.monotonic() >= self._counted_at + ROUTE_CHECK_S:
            self._count_partitions()
        return self._settings.routing_partitions(self._clock.now_us())

    def _count_partitions(self) -> None:
        self._counted_at = self._clock.monotonic()
        store, topic = parts_of(self._log).store, self.topic
        found = store.find_topic(topic.tenant, topic.name, fresh=True)
        if found is not None and found.topic.id == topic.id:
            self._settings = found.settings

    def _follow_added(self) -> None:
        self._count_partitions()
        count = self._settings.partitions
        if self._is_whole and len(self._folds) < count:
            self.reconcile(range(count))

    def _place(self, partition: int) -> Partition:
        if (whole(partition) or 0) >= self._settings.partitions:
            self._count_partitions()
        count = self._settings.partitions
        return checked_place({self.topic: count}, self.topic, partition).partition

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise forked()
        if not self._pump.is_running:
            raise ClosedError("this view was closed, open it again") from self._pump.cause

    def _finish(self, request: Request) -> None:
        self._clock.wait(request.done, None)
        if isinstance(request.error, OSError):
            raise UnavailableError("the snapshot could not be written") from request.error
        if request.error is not None:
            raise request.error


def _follow_added(view: "weakref.ref[LiveView[Any]]") -> None:
    # The pump must not keep a view without references alive.
    if (found := view()) is not None:
        with contextlib.suppress(UnavailableError, ClosedError):
            found._follow_added()  # noqa: SLF001 - A part of it.


def forked() -> ClosedError:
    """Return the error for a forked child."""
    return ClosedError("a view cannot be used after a fork, open it again")


def check_poison(poison: str) -> None:
    """Raise InvalidError for an unknown policy."""
    if check_text(poison, "poison") not in ("stop", "quarantine"):
        raise InvalidError('poison is "stop" or "quarantine"', poison=poison)
