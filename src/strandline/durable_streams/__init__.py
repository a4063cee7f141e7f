"""Durable Streams: a public protocol of streams, over topics of a log. See design 0118.

Promises: a stream is a topic of one partition, and a message is a record; what was acknowledged
is stored once, even if the process is killed while it appends; the state of a producer
is computed from the records, so every process gets the same result.
"""

from strandline.durable_streams.messages import messages_of
from strandline.durable_streams.names import path_of, topic_name_of
from strandline.durable_streams.offsets import BEGINNING, NOW, position_of, shown_offset
from strandline.durable_streams.stream import DurableStream, StreamPage
from strandline.durable_streams.stream_settings import (
    StreamSettings,
    asked_fork,
    asked_settings,
    is_true,
    media_of,
)
from strandline.durable_streams.table import Made, NotSameError, StreamOutcome, StreamTable
from strandline.durable_streams.writers import (
    SAFE_INT_MAX,
    AppendMark,
    ProducerMark,
    WriterDecision,
)

__all__ = [
    "BEGINNING",
    "NOW",
    "SAFE_INT_MAX",
    "AppendMark",
    "DurableStream",
    "Made",
    "NotSameError",
    "ProducerMark",
    "StreamOutcome",
    "StreamPage",
    "StreamSettings",
    "StreamTable",
    "WriterDecision",
    "asked_fork",
    "asked_settings",
    "is_true",
    "media_of",
    "messages_of",
    "path_of",
    "position_of",
    "shown_offset",
    "topic_name_of",
]
