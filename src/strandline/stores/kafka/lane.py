"""The lane of each partition: waiting appends are sent together, and stored once."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from strandline.log.chain import Chain
from strandline.log.loop_thread import LoopOutcome
from strandline.log.store import AppendRequest
from strandline.stores.append_queue import AppendResults, WaitingAppend, WaitingAppends
from strandline.stores.fenced_head import FencedHead
from strandline.stores.frame_records import frame_record
from strandline.stores.kafka.errors import GoneError
from strandline.stores.kafka.frames import NAME_BYTES, KafkaFrame, PartitionEnd, PlacedFrame
from strandline.stores.kafka.identities import KafkaIdentities
from strandline.stores.kafka.partition import KafkaPartition
from strandline.stores.kafka.publishing import publish
from strandline.stores.kafka.tries import KafkaTries
from strandline.stores.kafka.trimming import begin_epoch, save
from strandline.values import Durability, InvalidError, StrandlineError, UnknownError

#: One append is one message.
_BYTES_MAX: Final = 64 * 1024 * 1024
_RECORDS_MAX: Final = 100_000


class KafkaLane:
    """The write path of one partition. Any thread may append; calls `on_stored` with the end."""

    def __init__(
        self,
        partition: KafkaPartition,
        chain: Chain,
        level: Durability,
        executor: Executor,
        on_stored: Callable[[int], None],
    ) -> None:
        clients = partition.clients
        self.partition = partition
        self.identities: KafkaIdentities = KafkaIdentities(partition)
        self._clients = clients
        self._chain = chain
        self._on_stored = on_stored
        self._queue = WaitingAppends(
            *(clients.state, clients.clock, clients.url, level),
            start=lambda: executor.submit(self._drain),
            serve=self._serve,
        )
        self._executor = executor
        self.close: Final = self._queue.close
        #: The end after this process's last frame, and the count of lost connections then.
        self._stored: PartitionEnd | None = None
        self._losses = 0

    def append(
        self, request: AppendRequest, level: Durability, timeout_s: float | None, *, may_wait: bool
    ) -> LoopOutcome:
        """Append; see Store.append."""
        whole = sum(each.size_bytes for each in request.drafts)
        if whole > _BYTES_MAX or len(request.drafts) > _RECORDS_MAX:
            raise InvalidError(
                "this is too large for one append, which is one message: append less at a time",
                records=len(request.drafts),
                records_max=_RECORDS_MAX,
                bytes=whole,
                bytes_max=_BYTES_MAX,
            )
        return self._queue.append(request, level, timeout_s, may_wait=may_wait)

    # --- on a thread of the executor, or of a caller that waits ---

    def _drain(self) -> None:
        while batch := self._queue.taken():
            self._settle(batch)

    def _serve(self, own: WaitingAppend) -> None:
        try:
            while not own.future.done():
                self._settle(self._queue.taken())
        finally:
            if self._queue.is_handed_on():
                self._executor.submit(self._drain)

    def _settle(self, batch: list[WaitingAppend]) -> None:
        try:
            self._store(batch)
        except StrandlineError as error:
            self._queue.fail(batch, error)
        except BaseException as error:
            # Every append must get an outcome, even if its caller is interrupted.
            self._queue.fail(batch, UnknownError(error))
            if not isinstance(error, Exception):
                raise

    def _store(self, batch: list[WaitingAppend]) -> None:
        """Decide on appends and store them; repeat until no other writer intervenes."""
        tries = self._clients.tries(self._clients.patience_s)
        end = self.partition.known_end
        if self._stored is not None and self._losses != self._clients.losses:
            end = None
        is_fresh = False
        while True:
            if end is None:
                end, is_fresh = self._looked_up(tries), True
            batch = self._queue.without_withdrawn(batch)
            try:
                fenced, results = self._decided(batch, end)
            except GoneError:
                end = None
                continue
            is_final = is_fresh or not any(isinstance(each, Exception) for each in results)
            if fenced.records:
                is_final = self._publish(batch, fenced, end, tries)
            if is_final:
                break
            end, is_fresh = None, False
        self._queue.settle(batch, results)
        if fenced.records:
            self._on_stored(fenced.next)
        if self.identities.is_worth_saving:
            save(self.partition, self.identities)

    def _decided(
        self, batch: list[WaitingAppend], end: PartitionEnd
    ) -> tuple[FencedHead, AppendResults]:
        clock = self._clients.clock
        if not any(each.request.has_identity for each in batch):
            fenced = FencedHead(end, None)
            return fenced, fenced.apply_each(batch, clock, self._chain)
        with self.identities.lock:
            fenced = FencedHead(end, self.identities.catch_up(end))
            return fenced, fenced.apply_each(batch, clock, self._chain)

    def _publish(
        self, batch: list[WaitingAppend], fenced: FencedHead, end: PartitionEnd, tries: KafkaTries
    ) -> bool:
        """Store what was decided, if the partition still ends at `end`; return whether it did."""
        frame = KafkaFrame(
            *(self._clients.clock.random_bytes(NAME_BYTES), end.name, end.end),
            *(fenced.records[0].offset, end.bytes_total, end.checkpoint, end.identified),
            [frame_record(each) for each in fenced.records],
            fenced.index.added,
        )
        if not publish(
            *(self.partition, frame, tries),
            lambda: self._queue.begin_sending(batch),
            lambda is_sent: self._queue.set_sent(batch, is_sent=is_sent),
        ):
            return False
        at = self.partition.place_of(frame.name)
        if at == frame.claim:
            self.identities.add(PlacedFrame(at, frame, sum(r.size_bytes for r in fenced.records)))
        self._stored, self._losses = self.partition.known_end, self._clients.losses
        return True

    def _looked_up(self, tries: KafkaTries) -> PartitionEnd:
        """Return the current end; begin an epoch if acknowledged records are missing."""
        losses = self._clients.losses
        end, last = self.partition.end(tries), self._stored
        if last is None or self._losses == losses:
            return end
        is_there = last.at < end.end
        if is_there and last.at >= 0:
            try:
                is_there = self.partition.frame(last.at).name == last.name
            except GoneError:
                # A trimmed record had been there.
                is_there = True
        self._stored, self._losses = None, losses
        if not is_there:
            self.partition.forget()
            begin_epoch(self.partition, self.identities, last.next)
            end = self.partition.end(tries)
        return end
