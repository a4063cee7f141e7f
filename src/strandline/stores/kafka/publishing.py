"""Stores one frame at the end of a partition, once, however often it has to be sent."""

from collections.abc import Callable

from strandline.stores.kafka.frames import KafkaFrame, PlacedFrame
from strandline.stores.kafka.partition import KafkaPartition
from strandline.stores.kafka.tries import KafkaTries
from strandline.stores.lost_answer import LostError, NotSentError
from strandline.values import InvalidError, UnknownError


def publish(
    partition: KafkaPartition,
    frame: KafkaFrame,
    tries: KafkaTries,
    begin: Callable[[], bool] = lambda: True,
    set_sent: Callable[[bool], None] = lambda _: None,
) -> bool:
    """Store a frame if its predecessor is still the last one; return whether it is stored.

    The same frame is sent again if there is no answer: at most one of its copies counts.
    `begin` is called before sending, and may refuse; `set_sent` is called with whether the
    frame may be stored.
    """
    payload = frame.encode()
    resets, may_be_there = partition.resets, False
    while begin():
        try:
            at = partition.clients.send(partition.place, payload)
            may_be_there = True
            if at == frame.claim:
                # No message came between the known end and this frame.
                partition.advance(PlacedFrame(at, frame, len(payload)))
                return True
        except NotSentError as error:
            set_sent(may_be_there)
            partition.check_there()
            partition.clients.refresh(partition.place.topic)
            tries.rest(error)
        except InvalidError:
            set_sent(may_be_there)
            raise
        except LostError as error:
            may_be_there = True
            partition.clients.refresh(partition.place.topic)
            tries.rest(error)
        if may_be_there:
            found = _counts(partition, frame, tries, resets)
            if found is not None:
                set_sent(found)
                return found
    return False


def _counts(
    partition: KafkaPartition, frame: KafkaFrame, tries: KafkaTries, resets: int
) -> bool | None:
    """Return whether a sent frame counts; None if it must be sent again."""
    last = partition.end(tries).name
    if partition.place_of(frame.name) is not None:
        return True
    if partition.resets != resets:
        raise UnknownError(LostError("the answer was lost, and what is there was trimmed"))
    # If another writer was first, no copy of this frame can ever count.
    return None if last == frame.after else False
