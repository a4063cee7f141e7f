"""The log: topics of partitions of records, one contract for every backend.

Promises: what `protocol` says, and nothing that it does not say; a backend adds
speed or safety, never a rule.

Does not subscribe, fold or copy: the rooms above do so, and know only what is
exported here.
"""

from strandline.log.protocol import (
    Batches,
    Hint,
    Log,
    LogConsumers,
    LogReader,
    LogTopics,
    LogWriter,
    Receipt,
    Receipts,
    TopicName,
    Value,
    Watch,
)

__all__ = [
    "Batches",
    "Hint",
    "Log",
    "LogConsumers",
    "LogReader",
    "LogTopics",
    "LogWriter",
    "Receipt",
    "Receipts",
    "TopicName",
    "Value",
    "Watch",
]
