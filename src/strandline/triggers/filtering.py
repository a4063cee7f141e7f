"""The part of a record that a trigger wants."""

from collections.abc import Callable
from typing import TypeAlias

from strandline.log.protocol import Log
from strandline.values import Record, Topic

Wanted: TypeAlias = Callable[[Record], Record | None]
"""Returns the record, or the matching rows of it; None if it is passed over."""


def wanted(log: Log, topic: Topic, where: str) -> Wanted:
    """Return what tells the records that `where` matches."""
    return _everything


def _everything(record: Record) -> Record | None:
    return record
