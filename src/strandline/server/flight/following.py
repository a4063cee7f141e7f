"""Follows a topic: the existing rows, then new ones, without a gap or a repeat."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import pyarrow as pa

from strandline.log import Log, Watch
from strandline.log.ranges import ReadRange
from strandline.scans.paging import scan_page
from strandline.server.flight.calls import FlightCalls
from strandline.server.flight.reading import AskedRows
from strandline.server.flight.tickets import ReadTicket
from strandline.server.resume import Epochs, resume_token
from strandline.server.tailing import PARTITIONS_MAX
from strandline.values import ClosedError, InvalidError

_LOOK_S: Final = 1.0
"""How often a follower checks that its client is connected, and for added partitions."""

Chunk = tuple[pa.RecordBatch, bytes]
"""Rows, and what is sent with them."""


class FollowedTopic:
    """One follower. Its rows and those that come later are those of one subscription.

    With the last rows of a page comes `after`, which resumes the stream behind them.
    """

    def __init__(self, log: Log, asked: AskedRows, ticket: ReadTicket, epochs: Epochs) -> None:
        if ticket.end is not None:
            raise InvalidError("a stream that follows has no end, leave one of them out")
        if len(asked.spans) > PARTITIONS_MAX:
            raise InvalidError(
                f"a stream follows at most {PARTITIONS_MAX} partitions, name them",
                partitions=len(asked.spans),
            )
        self._log = log
        self._topic = asked.topic
        self._columns = asked.schema
        self._sieve = asked.read.sieve
        self._at = {partition: start for partition, (start, _) in asked.spans.items()}
        self._adds = ticket.partitions is None
        self._durable_only = ticket.durable_only
        self._epochs = epochs

    def chunks(
        self, calls: FlightCalls, ping_s: float, is_gone: Callable[[], bool]
    ) -> Iterator[Chunk]:
        """Yield rows until the server stops, or the client disconnects."""
        watch = self._log.watch(durable_only=self._durable_only)
        with contextlib.closing(watch), calls.woken_by(watch.wake):
            quiet_s = ping_s
            while not is_gone():
                rows = self._grown(watch)
                for chunk in rows:
                    quiet_s = 0.0
                    yield chunk
                if calls.is_draining:
                    yield self._note(bye=True)
                    return
                if quiet_s == 0.0 or quiet_s >= ping_s:
                    # Caught up, or a ping, without which a broken connection is not detected.
                    yield self._note(caught_up=True)
                    quiet_s = 0.0
                with contextlib.suppress(ClosedError):
                    watch.wait(_LOOK_S)
                quiet_s += _LOOK_S
                self._add_partitions()

    def _grown(self, watch: Watch) -> Iterator[Chunk]:
        """Yield what there is behind what was sent, partition by partition."""
        for partition in sorted(self._at):
            end = self._end(partition)
            while self._at[partition] < end:
                place, span = (self._topic, partition), (self._at[partition], end)
                found, at = scan_page(self._log, place, span, self._columns, self._sieve)
                self._at[partition] = at
                for batch in found[:-1]:
                    yield batch, b""
                if found:
                    yield found[-1], self._metadata()
            # Hinted at once, if it has grown meanwhile.
            watch.add(self._topic, partition, self._at[partition])

    def _end(self, partition: int) -> int:
        wanted = ReadRange(self._at[partition], durable_only=self._durable_only)
        return wanted.stop(self._log.marks(self._topic, partition))

    def _add_partitions(self) -> None:
        if self._adds:
            count = self._log.describe_topic(self._topic).settings.partitions
            for partition in range(count):
                self._at.setdefault(partition, 0)

    def _note(self, **more: bool) -> Chunk:
        return _empty(self._columns), self._metadata(**more)

    def _metadata(self, **more: bool) -> bytes:
        places = {
            partition: (offset, self._epochs.before(self._topic, partition, offset))
            for partition, offset in self._at.items()
        }
        token = resume_token(self._log.id, self._topic, places)
        return msgspec.json.encode({"after": token, **more})


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)
