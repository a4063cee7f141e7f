"""Which objects the table of a topic has. See designs 0103 and 0136."""

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from strandline.tiering.catalogue import SegmentCatalogue
from strandline.tiering.footer import Footer
from strandline.tiering.object_store import ObjectStore, canonical_url
from strandline.tiering.routing import topic_folder
from strandline.tiering.segment import CopiedSegment, UserPartition
from strandline.values import InvalidError

_logger = logging.getLogger("strandline")


class TableEnd(NamedTuple):
    """Where a table ends before the tier does."""

    #: Of each partition the first missing or damaged copy, if there is one.
    lost: Sequence[CopiedSegment] = ()
    #: Why the table cannot hold the columns of a copy; None if it holds those of all.
    unfit: InvalidError | None = None


class TableFiles:
    """The objects that the table of a topic should have, according to the catalogue."""

    def __init__(
        self, catalogue: SegmentCatalogue, places: Sequence[UserPartition], store: ObjectStore
    ) -> None:
        self.catalogue = catalogue
        self.places = places
        self.store = store
        self.topic = places[0].named()
        self.folder = topic_folder(self.topic)
        self._url = canonical_url(store.url)
        self._footers: dict[str, Footer | None] = {}
        self._fitted: set[pa.Schema] = set()
        self.end = TableEnd()
        """As found by `wanted`."""

    def wanted(
        self, known: Container[str], fit: Callable[[Footer], None]
    ) -> Mapping[str, CopiedSegment]:
        """Return the copies by their path: of each partition one run without a gap.

        Files that are not in `known` are checked for existence, and by `fit`, which adds their
        columns to the table's. A copy that is lost, or for which it raises InvalidError, ends
        its partition's run.
        """
        self.end = TableEnd()
        self._fitted.clear()
        return {
            self.path(segment): segment
            for place in self.places
            for segment in self._run(place, known, fit)
        }

    def path(self, segment: CopiedSegment) -> str:
        """Return the path of an object in the topic's folder."""
        return segment.name.removeprefix(f"{self.folder}/")

    def footer(self, segment: CopiedSegment) -> Footer:
        """Return the footer of a copy that `wanted` returned."""
        footer = self._fetched(segment)
        assert footer is not None
        return footer

    def _run(
        self, place: UserPartition, known: Container[str], fit: Callable[[Footer], None]
    ) -> list[CopiedSegment]:
        if self.catalogue.deletion(place) is not None:
            return []
        found: list[CopiedSegment] = []
        for segment in self.catalogue.current(place):
            if not self._is_here(segment):
                continue
            if found and segment.end <= found[-1].end:
                continue  # Another copy of records that are covered already.
            if found and segment.start != found[-1].end:
                _logger.warning("%s does not follow the copies before it", segment.location)
                break
            is_new = self.path(segment) not in known
            footer = self._fetched(segment) if is_new else None
            if is_new and footer is None:
                _logger.warning(
                    "%s is missing or damaged, it is not in the topic's table, nor is what "
                    "follows; restore it from a copy of the store, or tier again if the log has "
                    "its records",
                    segment.location,
                )
                self.end = self.end._replace(lost=(*self.end.lost, segment))
                break
            if footer is not None and not self._fits(footer, fit):
                break
            found.append(segment)
        return found

    def _fits(self, footer: Footer, fit: Callable[[Footer], None]) -> bool:
        if footer.columns not in self._fitted:
            try:
                fit(footer)
            except InvalidError as error:
                self.end = self.end._replace(unfit=self.end.unfit or error)
                return False
            self._fitted.add(footer.columns)
        return True

    def _is_here(self, segment: CopiedSegment) -> bool:
        is_here = segment.store == self.store.url or canonical_url(segment.store) == self._url
        return is_here and segment.name.startswith(f"{self.folder}/")

    def _fetched(self, segment: CopiedSegment) -> Footer | None:
        if segment.name not in self._footers:
            self._footers[segment.name] = Footer.of(self.store, segment.name, segment.size_bytes)
        return self._footers[segment.name]


def spans(segments: Iterable[CopiedSegment]) -> Mapping[str, Mapping[str, int]]:
    """Return the offsets and the last epoch of each partition, for people and other programs."""
    found: dict[str, dict[str, int]] = {}
    for segment in segments:
        span = found.setdefault(str(segment.place.partition), {"start": segment.start})
        span |= {"end": segment.end, "epoch": segment.epochs[-1][0]}
    return found
