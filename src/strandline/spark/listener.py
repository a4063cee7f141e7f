"""Moves the consumers of streaming queries, at the end of each micro-batch."""

import logging
from dataclasses import dataclass
from typing import Any

from strandline.values import InvalidError, Mode, StrandlineError
from strandline.values.extras import missing

try:
    from pyspark.sql.streaming.listener import StreamingQueryListener
except ImportError as _error:
    raise InvalidError(missing("PySpark", "spark")) from _error

from strandline.opening import open_log
from strandline.spark.source.consumers import keep_up
from strandline.spark.source.positions import StreamPlace, stream_place

_logger = logging.getLogger("strandline")


@dataclass(frozen=True, slots=True)
class Behind:
    """The lag of a query: how many records its partitions are behind the end of the log."""

    least: int
    most: int
    average: float


class ConsumerListener(StreamingQueryListener):
    """`spark.streams.addListener(ConsumerListener())`.

    Moves the consumer that a stream's `groupId` names to the end of the finished micro-batch, so
    that `log.consumers` shows its lag, and records that the query has not read yet are not
    trimmed. Without the listener the consumer is one micro-batch late, and misses the last one.
    """

    def __init__(self) -> None:
        self._behind: dict[str, Behind] = {}

    def behind(self, query_id: object) -> Behind | None:
        """Return the lag of a query at its last progress; None before the first progress."""
        return self._behind.get(str(query_id))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 # Spark's names.
        """Do nothing: no micro-batch is finished yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        for source in event.progress.sources:
            place = stream_place(source.endOffset)
            if place is not None:
                self._note_behind(str(event.progress.id), place, source.latestOffset)
                _move(place)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: there was no micro-batch."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._behind.pop(str(event.id), None)

    def _note_behind(self, query_id: str, place: StreamPlace, latest: str | None) -> None:
        end = stream_place(latest)
        if end is not None:
            gaps = [end.offsets.get(each, at) - at for each, at in place.offsets.items()]
            if gaps:
                self._behind[query_id] = Behind(min(gaps), max(gaps), sum(gaps) / len(gaps))


def _move(place: StreamPlace) -> None:
    try:
        with open_log(place.url, mode=Mode.CONSUME) as log:
            keep_up(log, place)
    except StrandlineError as error:
        _logger.warning("the consumer %r of a stream was not moved: %s", place.consumer, error)
