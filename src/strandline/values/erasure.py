"""The result of an erasure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicErasure:
    """The erased records of one topic."""

    topic: str
    partitions: tuple[int, ...]
    """The number of erased records of each partition."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """The result of `erase`: how many records were erased, and where."""

    topics: tuple[TopicErasure, ...]
    """The topic, and its dead letters if it has any."""
    is_dry_run: bool
    """Whether nothing was changed."""
    is_released: bool
    """Whether no copy is left in the log's own files. If not, readers prevented it: call again."""

    @property
    def erased(self) -> int:
        """The number of erased records of all topics."""
        return sum(sum(each.partitions) for each in self.topics)
