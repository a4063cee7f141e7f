"""The report of a tiering run."""

from dataclasses import astuple, dataclass
from typing import NamedTuple

from strandline.tiering.segment import CopiedSegment, SegmentState


class TierStep(NamedTuple):
    """A step that a tiering run has just made."""

    state: SegmentState
    segment: CopiedSegment


@dataclass(slots=True)
class TierReport:
    """The result of a run of tiering."""

    copied: int = 0
    copied_records: int = 0
    copied_bytes: int = 0
    """The size of the objects."""
    evicted_records: int = 0
    deleted: int = 0
    damaged: int = 0
    """Copies that were found damaged while the log still had their records."""
    merged: int = 0
    """Copies that were merged into larger ones."""

    def with_added(self, other: "TierReport") -> "TierReport":
        """Return the sum of both."""
        return TierReport(
            *(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True))
        )
