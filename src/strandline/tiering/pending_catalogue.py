"""A placeholder for a segment catalogue that does not exist yet."""

from collections.abc import Iterable, Mapping, Sequence

from strandline.log import Log
from strandline.tiering.catalogue import SegmentCatalogue
from strandline.tiering.segment import CopiedSegment, DeletionState, SegmentState, UserPartition
from strandline.values import NotReadyError
from strandline.values.prompt import prompt_text
from strandline.views import PUBLISH_TIMEOUT_S
from strandline.views.health import ViewHealth

_NO_PARTITION = -1


class PendingCatalogue:
    """Raises NotReadyError for everything, steps included, until `become`.

    After that each call goes to the catalogue that was set last, so that no step is accepted
    and lost during a start, and a catalogue can be replaced while it is in use. NotReadyError
    has the partition -1, because the actual one is not known yet.
    """

    def __init__(self) -> None:
        self._catalogue: SegmentCatalogue | None = None

    def __repr__(self) -> str:
        return prompt_text("PendingCatalogue", self._catalogue)

    def become(self, catalogue: SegmentCatalogue) -> SegmentCatalogue | None:
        """Forward to `catalogue` from now on, and return the previous one."""
        before, self._catalogue = self._catalogue, catalogue
        return before

    def _there(self) -> SegmentCatalogue:
        if self._catalogue is None:
            raise NotReadyError(_NO_PARTITION)
        return self._catalogue

    def check_is_of(self, log: Log) -> None:
        """See SegmentCatalogue."""
        self._there().check_is_of(log)

    # --- assignment ---

    def partition_of(self, place: UserPartition) -> int:
        """See SegmentCatalogue."""
        return self._there().partition_of(place)

    def reconcile(self, partitions: Iterable[int]) -> None:
        """See SegmentCatalogue."""
        self._there().reconcile(partitions)

    def follow(self, places: Iterable[UserPartition], timeout_s: float | None = None) -> None:
        """See SegmentCatalogue."""
        self._there().follow(places, timeout_s)

    def follow_all(self, timeout_s: float | None = None) -> None:
        """See SegmentCatalogue."""
        self._there().follow_all(timeout_s)

    def refresh(self, timeout_s: float | None = PUBLISH_TIMEOUT_S) -> None:
        """See SegmentCatalogue."""
        self._there().refresh(timeout_s)

    def rebuild(self, partitions: Iterable[int] | None = None) -> None:
        """See SegmentCatalogue."""
        self._there().rebuild(partitions)

    def assigned(self) -> Sequence[int]:
        """See SegmentCatalogue."""
        return self._there().assigned()

    def committed(self, partition: int) -> int:
        """See SegmentCatalogue."""
        return self._there().committed(partition)

    def health(self) -> ViewHealth:
        """See SegmentCatalogue."""
        return self._there().health()

    def lag(self) -> Mapping[int, int]:
        """See SegmentCatalogue."""
        return self._there().lag()

    # --- answers ---

    def find(self, place: UserPartition, epoch: int, offset: int) -> CopiedSegment | None:
        """See SegmentCatalogue."""
        return self._there().find(place, epoch, offset)

    def segments(self, place: UserPartition, epoch: int | None = None) -> Sequence[CopiedSegment]:
        """See SegmentCatalogue."""
        return self._there().segments(place, epoch)

    def current(self, place: UserPartition) -> Sequence[CopiedSegment]:
        """See SegmentCatalogue."""
        return self._there().current(place)

    def merged(self, place: UserPartition) -> Sequence[tuple[CopiedSegment, int]]:
        """See SegmentCatalogue."""
        return self._there().merged(place)

    def highest_readable_offset(self, place: UserPartition, epoch: int) -> int | None:
        """See SegmentCatalogue."""
        return self._there().highest_readable_offset(place, epoch)

    def highest_copied_offset(self, place: UserPartition, epoch: int) -> int | None:
        """See SegmentCatalogue."""
        return self._there().highest_copied_offset(place, epoch)

    def deletion(self, place: UserPartition) -> DeletionState | None:
        """See SegmentCatalogue."""
        return self._there().deletion(place)

    def places(self) -> Sequence[UserPartition]:
        """See SegmentCatalogue."""
        return self._there().places()

    def check_whole(self) -> None:
        """See SegmentCatalogue."""
        self._there().check_whole()

    # --- steps ---

    def add(self, segment: CopiedSegment, *, timeout_s: float = PUBLISH_TIMEOUT_S) -> None:
        """See SegmentCatalogue."""
        self._there().add(segment, timeout_s=timeout_s)

    def change(
        self,
        segment: CopiedSegment,
        state: SegmentState,
        *,
        note: str | bytes | None = None,
        low: int = 0,
        is_apart: bool = False,
        timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> None:
        """See SegmentCatalogue."""
        there = self._there()
        there.change(segment, state, note=note, low=low, is_apart=is_apart, timeout_s=timeout_s)

    def evict(
        self, place: UserPartition, start: int, before: int, *, timeout_s: float = PUBLISH_TIMEOUT_S
    ) -> None:
        """See SegmentCatalogue."""
        self._there().evict(place, start, before, timeout_s=timeout_s)

    def delete_partition(
        self, place: UserPartition, state: DeletionState, *, timeout_s: float = PUBLISH_TIMEOUT_S
    ) -> None:
        """See SegmentCatalogue."""
        self._there().delete_partition(place, state, timeout_s=timeout_s)
