"""A log on a server. See design 0101."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

from strandline.clock import Clock, SystemClock
from strandline.log import wire
from strandline.log.columns import RecordBatches
from strandline.log.history import History
from strandline.log.ranges import ReadRange
from strandline.log.record_batches import record_batches
from strandline.log.selecting_store import PredicateText, ScanText, SelectedPage
from strandline.log.store import (
    AppendRequest,
    Capabilities,
    PartitionState,
    Reach,
    Trimmed,
    dropped,
)
from strandline.stores.closing import close_each
from strandline.stores.remote.appending import RemoteAppends, RemoteOutcome
from strandline.stores.remote.claims import RemoteLeases
from strandline.stores.remote.connection import RemoteConnection
from strandline.stores.remote.evaluating import RemoteEvaluation
from strandline.stores.remote.reading import RemoteReads
from strandline.stores.remote.topics import RemoteTopic, topic_of
from strandline.stores.remote.watching import RemoteWatches
from strandline.stores.topic_ends import TopicEnd, ends_of
from strandline.values import (
    DroppedError,
    Durability,
    Epoch,
    InvalidError,
    Marks,
    Mode,
    Offset,
    Partition,
    Record,
    Segment,
    Tenant,
    Topic,
    TopicSettings,
    parse_tenant,
)
from strandline.values.arguments import check_path, check_seconds

MessageT = TypeVar("MessageT", bound=wire.Message)

_NEEDED = {Mode.READ: "read", Mode.CONSUME: "consume", Mode.WRITE: "append"}


class RemoteStore:
    """Implements Store. A child of a fork cannot use it.

    `patience_s` is how long a call keeps trying while the server does not answer. `tls_ca` is
    the path of PEM certificates that may sign the server's; by default the system's
    authorities.
    """

    def __init__(
        self,
        url: str,
        *,
        mode: str = Mode.WRITE,
        clock: Clock | None = None,
        token: str | None = None,
        patience_s: float = 30.0,
        request_timeout_s: float = 60.0,
        tls_ca: str | None = None,
    ) -> None:
        self.mode: Final = Mode.parse(mode)
        self._connection = RemoteConnection(
            url,
            token=token,
            clock=clock if clock is not None else SystemClock(),
            patience_s=check_seconds("patience_s", patience_s),
            timeout_s=check_seconds("request_timeout_s", request_timeout_s, allows_zero=False),
            tls_ca=None if tls_ca is None else check_path("tls_ca", tls_ca),
        )
        try:
            found = self._connection.call("open", wire.DoneReturn(), wire.WireStore)
            _check_scopes(found, self.mode)
        except BaseException:
            self._connection.close()
            raise
        self.id: Final = found.id
        self.url: Final = self._connection.url
        self.capabilities: Final = Capabilities(
            Durability(found.durability_max),
            found.durability_reason,
            Reach.NETWORK,
            has_own_quotas=True,
            has_evaluation=True,
            has_metrics=True,
            has_schemas=found.has_schemas,
            has_segments=found.has_segments,
            tenant=parse_tenant(found.tenant),
            trims_at_once=found.trims_at_once,
        )
        self.check_open: Final = self._connection.state.check
        self._appends = RemoteAppends(self._connection, found.body_bytes_max)
        self._watches = RemoteWatches(self._connection, self._end)
        self.watch: Final = self._watches.open
        self.metrics: Final = self._watches.metrics
        self._leases = RemoteLeases(self._connection)
        self.claim: Final = self._leases.take
        self._evaluation = RemoteEvaluation(self._connection)

    # --- topics ---

    def topics(self) -> Sequence[RemoteTopic]:
        found = self._connection.call("topics", wire.DoneReturn(), wire.FoundTopics)
        return [topic_of(each) for each in found.topics]

    def find_topic(
        self, tenant: Tenant | None, name: str, *, fresh: bool = False
    ) -> RemoteTopic | None:
        del fresh
        return self._found(wire.FindCall(tenant, name))

    def find_topic_id(self, topic_id: UUID) -> RemoteTopic | None:
        return self._found(wire.FindCall(topic_id=topic_id))

    def _found(self, call: wire.FindCall) -> RemoteTopic | None:
        found = self._connection.call("find-topic", call, wire.FoundTopics).topics
        return topic_of(found[0]) if found else None

    def create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings
    ) -> RemoteTopic:
        call = wire.CreateCall(name, tenant, settings.to_json())
        return topic_of(self._connection.call("create-topic", call, wire.FoundTopics).topics[0])

    def change_settings(
        self, topic: RemoteTopic, change: Callable[[TopicSettings], TopicSettings]
    ) -> TopicSettings:
        settings = topic.settings
        while True:
            wanted = change(settings)
            call = wire.ChangeCall(topic.topic.id, settings.to_json(), wanted.to_json())
            found = self._call(topic, "change-settings", call, wire.WireTopic)
            settings = TopicSettings.from_json(found.settings)
            if settings == wanted:
                return wanted

    def drop_topic(self, topic: RemoteTopic) -> None:
        call = wire.TopicCall(topic.topic.id)
        self._call(topic, "drop-topic", call, wire.DoneReturn)
        self._watches.notify_dropped(ends_of(topic))

    def schemas(self) -> Mapping[UUID, Sequence[bytes]]:
        return self._connection.call("schemas", wire.DoneReturn(), wire.SchemasReturn).versions

    def add_schema(self, topic: Topic, schema: bytes, expected: int) -> bool:
        call = wire.AddSchemaCall(topic.id, schema, expected)
        return self._connection.call("add-schema", call, wire.DoneReturn).is_done

    # --- records ---

    def append(
        self,
        topic: RemoteTopic,
        partition: int,
        request: AppendRequest,
        level: Durability,
        timeout_s: float | None,
        *,
        may_wait: bool = True,
    ) -> RemoteOutcome:
        return self._appends.append(topic, partition, request, level, timeout_s, may_wait=may_wait)

    def marks(self, topic: RemoteTopic, partition: int) -> Marks:
        call = wire.PartitionCall(topic.topic.id, partition)
        return self._call(topic, "marks", call, wire.WireMarks).marks()

    def state(self, topic: RemoteTopic, partition: int) -> PartitionState:
        call = wire.PartitionCall(topic.topic.id, partition)
        found = self._call(topic, "state", call, wire.WireState)
        epochs = [Epoch(number, each, Offset(start)) for number, each, start in found.epochs]
        return PartitionState(found.marks.marks(), Offset(found.oldest), epochs)

    def read(self, topic: RemoteTopic, partition: int, wanted: ReadRange) -> Iterator[Record]:
        reads = RemoteReads(self._connection, topic, partition)
        first, stop = reads.first(wanted)
        return reads.records(wanted, first, stop)

    def read_batches(self, topic: RemoteTopic, partition: int, wanted: ReadRange) -> RecordBatches:
        reads = RemoteReads(self._connection, topic, partition)
        first, stop = reads.first(wanted)
        kind = topic.settings.value_kind
        return record_batches(kind, Partition(partition), lambda: reads.pages(wanted, first, stop))

    def read_selected(
        self,
        topic: RemoteTopic,
        partition: int,
        wanted: ReadRange,
        predicates: Sequence[PredicateText],
    ) -> SelectedPage | None:
        return self._evaluation.selected(topic, partition, wanted, predicates)

    def scan_selected(
        self, topic: RemoteTopic, partition: int, wanted: ScanText
    ) -> tuple[bytes, int] | None:
        return self._evaluation.scanned(topic, partition, wanted)

    def scan_schema(
        self, topic: RemoteTopic, ranges: Sequence[tuple[int, int, int]]
    ) -> bytes | None:
        return self._evaluation.schema(topic, ranges)

    def history(self, topic: RemoteTopic, partition: int, start: int, end: int | None) -> History:
        return RemoteReads(self._connection, topic, partition).history(self.id, start, end)

    def offset_since(self, topic: RemoteTopic, partition: int, timestamp_us: int) -> Offset:
        del partition, timestamp_us
        raise InvalidError(
            "look up times in a topic that other programs write on the log itself, not on a server",
            topic=topic.topic.name,
        )

    def segments(self, topic: RemoteTopic, partition: int) -> Sequence[Segment]:
        call = wire.PartitionCall(topic.topic.id, partition)
        return [
            Segment(
                Offset(each.start),
                Offset(each.end),
                each.size_bytes,
                each.first_timestamp_us,
                each.last_timestamp_us,
                is_sealed=each.is_sealed,
                location=self.url,
            )
            for each in self._call(topic, "segments", call, wire.Segments).segments
        ]

    def trim(self, topic: RemoteTopic, partition: int, low: int) -> Trimmed:
        call = wire.PartitionCall(topic.topic.id, partition, low)
        found = self._call(topic, "trim", call, wire.TrimReturn)
        return Trimmed(found.marks.marks(), found.is_released)

    def evict(self, topic: RemoteTopic, partition: int, before: int) -> Offset:
        call = wire.PartitionCall(topic.topic.id, partition, before)
        return Offset(self._call(topic, "evict", call, wire.NumberReturn).number)

    def sync(self, topic: RemoteTopic, partition: int) -> None:
        call = wire.PartitionCall(topic.topic.id, partition)
        self._call(topic, "sync", call, wire.DoneReturn)

    def flush(self) -> None:
        self._connection.call("flush", wire.DoneReturn(), wire.DoneReturn)

    def seal(self, topic: RemoteTopic, partition: int) -> int:
        call = wire.PartitionCall(topic.topic.id, partition)
        return self._call(topic, "seal", call, wire.NumberReturn).number

    # --- keys ---

    def keys(self, topic: RemoteTopic) -> Mapping[str, bytes]:
        return self._call(topic, "keys", wire.TopicCall(topic.topic.id), wire.KeysReturn).keys

    def get_key(self, topic: RemoteTopic, key: str) -> bytes | None:
        call = wire.KeyCall(topic.topic.id, key)
        return self._call(topic, "get-key", call, wire.KeysReturn).keys.get(key)

    def put_key(self, topic: RemoteTopic, key: str, value: bytes, expected: bytes | None) -> bool:
        call = wire.KeyCall(topic.topic.id, key, value, expected)
        answer, repeats = self._counted(topic, "put-key", call, wire.DoneReturn)
        if answer.is_done or not repeats:
            return answer.is_done
        # An earlier try may have set it.
        return self.get_key(topic, key) == value

    def remove_key(self, topic: RemoteTopic, key: str) -> bool:
        call = wire.KeyCall(topic.topic.id, key)
        answer, repeats = self._counted(topic, "remove-key", call, wire.DoneReturn)
        return answer.is_done or repeats > 0

    # --- the whole ---

    def _end(self, place: TopicEnd) -> int | None:
        call = wire.PartitionCall(place.topic.id, place.partition)
        try:
            marks = self._connection.call("marks", call, wire.WireMarks)
        except InvalidError:
            return None
        return marks.durable if place.durable_only else marks.high

    def beside(self, name: str) -> str | None:
        del name
        return None

    def size_bytes(self) -> int:
        return self._connection.call("size", wire.DoneReturn(), wire.NumberReturn).number

    def close(self) -> None:
        if self._connection.state.is_inherited or self._connection.state.is_closed:
            return
        self._connection.end_tries()
        # Closed in reverse order.
        close_each(
            (self._connection.close, self._appends.close, self._leases.close, self._watches.close)
        )

    # --- inside ---

    def _call(
        self, topic: RemoteTopic, name: str, call: wire.Message, kind: type[MessageT]
    ) -> MessageT:
        return self._counted(topic, name, call, kind)[0]

    def _counted(
        self, topic: RemoteTopic, name: str, call: wire.Message, kind: type[MessageT]
    ) -> tuple[MessageT, int]:
        try:
            return self._connection.counted_call(name, call, kind)
        except DroppedError as error:
            raise dropped(topic.topic) from error


def _check_scopes(found: wire.WireStore, mode: Mode) -> None:
    if mode is not Mode.READ and _NEEDED[mode] not in found.scopes:
        raise InvalidError(
            "the token does not allow this mode, open the log for reading",
            mode=str(mode),
            scopes=found.scopes,
        )
