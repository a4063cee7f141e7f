"""Reads other programs' messages from an offset on; offsets may be missing."""

from typing import Final, NamedTuple

from confluent_kafka import Message

from strandline.stores.kafka.errors import AT_END, translated
from strandline.stores.kafka.fetching import FetchPool, MessagePlace, consumed, polled
from strandline.stores.lost_answer import LostError

#: Between two messages there may be many batches of aborted transactions.
_FETCH_S: Final = 20.0
_MESSAGES_MAX: Final = 512
#: Only committed transactions; the end is reported, also after gaps.
RAW_SETTINGS: Final[dict[str, str | bool]] = {
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}


class RawPage(NamedTuple):
    """Messages, and the offset up to which they are complete."""

    messages: list[Message]
    end: int


def fetch_raw(pool: FetchPool, url: str, place: MessagePlace, at: int, stop: int) -> RawPage:
    """Return messages from `at` on and before `stop`; the page ends beyond `at`.

    GoneError if `at` is no longer stored, LostError if nothing arrives.
    """
    with pool.pooled(place, at) as pooled:
        pooled.begin(place, at)
        first = polled(pooled.consumer, _FETCH_S)
        found = [first, *consumed(pooled.consumer, _MESSAGES_MAX)]
        messages: list[Message] = []
        end = at
        is_over = False
        for each in found:
            offset = each.offset()
            error = each.error()
            if error is not None and error.code() != AT_END:
                raise translated(error, url)
            if error is None and offset is not None and offset < stop:
                messages.append(each)
                end = offset + 1
                continue
            # The end, or a message beyond `stop`: there is nothing before it.
            end = max(end, min(stop, offset or 0))
            is_over = True
            break
        if end == at:
            raise LostError("a broker has fewer messages than another one")
        pooled.end(end, end if is_over else stop)
        return RawPage(messages, end)
