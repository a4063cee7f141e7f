"""Predicates that the server evaluates, so that only what they select is sent. See design 0112."""

import threading
from collections.abc import Sequence
from typing import TypeVar

from strandline.log import wire
from strandline.log.draft import load
from strandline.log.ranges import ReadRange
from strandline.log.selecting_store import PredicateText, ScanText, SelectedPage
from strandline.stores.remote.connection import RemoteConnection
from strandline.stores.remote.topics import RemoteTopic
from strandline.values import CorruptError, DroppedError, InvalidError, Partition, Record, ValueKind

MessageT = TypeVar("MessageT", bound=wire.Message)


class RemoteEvaluation:
    """Lets a server evaluate predicates for one open log. Any thread may use it.

    If the server does not know a call, or refuses it, the result is None: it is an earlier
    version, and the records are read and selected here.
    """

    def __init__(self, connection: RemoteConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._unknown: set[str] = set()

    def selected(
        self,
        topic: RemoteTopic,
        partition: int,
        wanted: ReadRange,
        predicates: Sequence[PredicateText],
    ) -> SelectedPage | None:
        """See EvaluatingStore.read_selected."""
        call = wire.SelectCall(
            *(topic.topic.id, partition, wanted.start),
            wire.PAGE_RECORDS if wanted.records_max is None else wanted.records_max,
            wire.PAGE_BYTES if wanted.bytes_max is None else wanted.bytes_max,
            wanted.durable_only,
            [wire.WirePredicate(*each) for each in predicates],
        )
        answer = self._answer("select", call, wire.SelectReturn)
        if answer is None:
            return None
        self._check_order(answer, wanted.start)
        name, kind = topic.topic.name, topic.settings.value_kind
        is_batch = kind is ValueKind.BATCH
        stored = [wire.stored_record(each, is_batch=is_batch) for each in answer.records]
        records = [
            Record(
                *(name, Partition(partition), each.offset, each.timestamp_us, each.key),
                each.tenant,
                value=load(kind, each.body, each.key),
            )
            for each in stored
        ]
        return SelectedPage(records, answer.end)

    def scanned(
        self, topic: RemoteTopic, partition: int, wanted: ScanText
    ) -> tuple[bytes, int] | None:
        """See EvaluatingStore.scan_selected."""
        given = wanted.predicate
        call = wire.ScanCall(
            *(topic.topic.id, partition, wanted.start, wanted.end, wanted.columns, wanted.tenant),
            None if given is None else wire.WirePredicate(*given),
            wanted.offered,
        )
        answer = self._answer("scan", call, wire.ScanReturn)
        if answer is None:
            return None
        if not wanted.start < answer.end <= wanted.end:
            raise self._corrupt(answer.end)
        return answer.rows, answer.end

    def schema(self, topic: RemoteTopic, ranges: Sequence[tuple[int, int, int]]) -> bytes | None:
        """See EvaluatingStore.scan_schema."""
        call = wire.RangesCall(topic.topic.id, list(ranges))
        answer = self._answer("scan-schema", call, wire.SchemaReturn)
        return None if answer is None else answer.columns

    def _answer(self, name: str, call: wire.Message, kind: type[MessageT]) -> MessageT | None:
        if name in self._unknown:
            return None
        try:
            return self._connection.call(name, call, kind)
        except DroppedError:
            return None  # Reading the records raises the error.
        except InvalidError as error:
            if error.fields.get("status") == 404:  # noqa: PLR2004 - There is no such path.
                with self._lock:
                    self._unknown.add(name)
            return None

    def _check_order(self, answer: wire.SelectReturn, start: int) -> None:
        following = start
        for each in answer.records:
            if each.offset < following:
                raise self._corrupt(each.offset)
            following = each.offset + 1
        if answer.end < following:
            raise self._corrupt(answer.end)

    def _corrupt(self, position: int) -> CorruptError:
        return CorruptError(
            "the server has sent records out of order",
            file=self._connection.url,
            position=position,
        )
