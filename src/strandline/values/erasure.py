"""The result of an erasure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicErasure:
    """What was erased of one topic."""

    topic: str
    partitions: tuple[int, ...]
    """How many records of each partition."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What `erase` came to: how many records, and where."""

    topics: tuple[TopicErasure, ...]
    """The topic, and its dead letters if it has any."""
    is_dry_run: bool
    """Whether nothing was changed."""
    is_released: bool
    """Whether no copy is left in the log's own files. Else readers prevented it: call again."""

    @property
    def erased(self) -> int:
        """How many records, of all topics."""
        return sum(sum(each.partitions) for each in self.topics)
