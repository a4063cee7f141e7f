"""Folds one partition at once, in the caller's thread, without following it."""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from strandline.clock import SystemClock
from strandline.log import Log
from strandline.values import Topic, TrimmedError
from strandline.views.errors import StoppedError
from strandline.views.fold import Fold, PoisonError, view_screen
from strandline.views.saving import Saving
from strandline.views.snapshot import Section
from strandline.views.view import StateT, View

_PAGE_RECORDS: Final = 1024


@dataclass(frozen=True, slots=True)
class Folded:
    """The state of a folded partition, as in a snapshot file."""

    partition: int
    #: The first offset that was not applied.
    end: int
    records: int
    quarantined: int
    #: None if there never was a record.
    stored: tuple[Section, bytes] | None


def folded(
    log: Log, topic: Topic, view: View[StateT], partition: int, *, quarantines: bool
) -> Folded:
    """Fold the partition's current records, from the oldest one on, as a live view would.

    The log must allow consuming, so that the folded records are durable then. StoppedError
    at a record on which `apply` fails, unless it is quarantined.
    """
    saving = Saving(log, topic, view, None, SystemClock(), interval_s=1.0)
    fold = Fold(view, partition, SystemClock(), view_screen(log, topic, view))
    end = int(log.marks(topic, partition).high)
    saving.load(fold)
    while fold.mark.value < end:
        try:
            _apply(log, topic, fold, end)
        except TrimmedError as error:
            fold.origin, end = error.oldest, max(end, error.oldest)
        except PoisonError as poison:
            if not quarantines or isinstance(poison.cause, MemoryError):
                raise StoppedError(partition, poison.offset, poison.cause) from poison.cause
            fold.quarantined[poison.offset] = f"{type(poison.cause).__qualname__}: {poison.cause}"
        else:
            continue
        # A part of the record may have been applied, and that cannot be undone.
        fold.unload()
        saving.load(fold)
    following = fold.mark.value
    stored = saving.part(fold) if following else None
    records = following - fold.first
    return Folded(partition, following, records, len(fold.quarantined), stored)


def _apply(log: Log, topic: Topic, fold: Fold[StateT], end: int) -> None:
    found = log.read(topic, fold.partition, fold.mark.value, end)
    while page := list(islice(found, _PAGE_RECORDS)):
        fold.apply_page(page)
