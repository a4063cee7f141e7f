"""Saves folds to the snapshot file and loads them; the only place that decides on resuming."""

import contextlib
from collections.abc import Iterable
from typing import Final, Generic

from strandline.clock import Clock
from strandline.log import Log
from strandline.values import (
    ClosedError,
    DivergedError,
    InvalidError,
    Position,
    Topic,
    TrimmedError,
    UnavailableError,
)
from strandline.views.errors import check_no_interrupt
from strandline.views.fold import Fold
from strandline.views.snapshot import Section, SnapshotFile
from strandline.views.view import StateT, View

SNAPSHOT_INTERVAL_S: Final = 60.0
"""How often a snapshot of a view that has advanced is written by default."""


class Saving(Generic[StateT]):
    """Loads and saves folds. For the pump's thread only, except where noted."""

    def __init__(
        self,
        log: Log,
        topic: Topic,
        view: View[StateT],
        snapshots: SnapshotFile | None,
        clock: Clock,
        *,
        interval_s: float,
    ) -> None:
        self._log = log
        self._topic = topic
        self._view = view
        self._snapshots = snapshots
        self._clock = clock
        self._interval_s = interval_s
        self._decode_fault: BaseException | None = None
        self.save_fault: BaseException | None = None
        """Why the latest save failed, partly or completely."""
        self.due_at: float = float("inf") if snapshots is None else clock.monotonic() + interval_s

    # --- for any thread ---

    @property
    def fault(self) -> BaseException | None:
        """Why the snapshot could not be read or written; reset once one is written."""
        if self._snapshots is None:
            return None
        return self.save_fault or self._decode_fault or self._snapshots.fault

    def committed(self, partition: int) -> int:
        """Return the last offset in the snapshot; -1 if there is none."""
        return -1 if self._snapshots is None else self._snapshots.committed.get(partition, -1)

    # --- loading ---

    def load(self, fold: Fold[StateT]) -> None:
        """Set the fold's state from the snapshot, or to the initial one.

        UnavailableError if the log cannot be read at the moment.
        """
        if fold.origin is None and self._snapshots is not None:
            found = self._snapshots.section(fold.partition)
            if found is not None and self._resume(fold, *found):
                return
        self._disown([fold.partition])
        # Reading from 0 raises TrimmedError with the oldest record, if that is later.
        oldest, fold.origin = fold.origin or 0, None
        try:
            state = self._view.initial(fold.partition)
        except BaseException as error:
            check_no_interrupt(error)
            raise InvalidError("initial failed", partition=fold.partition) from error
        fold.position = None
        fold.load(state, oldest, oldest, {})

    def release(self) -> None:
        """Release the memory used for loading."""
        if self._snapshots is not None:
            self._snapshots.release()

    def _resume(self, fold: Fold[StateT], section: Section, stored: bytes) -> bool:
        position = Position.from_json(section.position.encode())
        try:
            if position.partition != fold.partition:
                return False
            following = self._log.resolve(position)
            state = self._view.decode(stored)
        except (UnavailableError, ClosedError):
            raise
        except (DivergedError, TrimmedError, InvalidError):
            return False
        except BaseException as error:  # noqa: BLE001 - After any error of decode, replay.
            check_no_interrupt(error)
            self._decode_fault = error
            return False
        fold.quarantined = {**section.quarantined, **fold.quarantined}
        fold.position = position
        fold.load(state, section.first, following, section.refused)
        return True

    # --- saving ---

    @property
    def is_due(self) -> bool:
        """Whether the interval has passed."""
        return self._clock.monotonic() >= self.due_at

    def save(self, folds: Iterable[Fold[StateT]]) -> list[Fold[StateT]]:
        """Save what has advanced, and return the folds with records that the log has lost.

        Failures appear as `fault`, and are retried after the interval.
        """
        lost: list[Fold[StateT]] = []
        if self._snapshots is None:
            return lost
        self.due_at = self._clock.monotonic() + self._interval_s
        self.save_fault = None
        fresh = {}
        for fold in folds:
            if self._has_advanced(fold):
                try:
                    fresh[fold.partition] = self.part(fold)
                except DivergedError:
                    lost.append(fold)
                except ClosedError:
                    raise
                except BaseException as error:  # noqa: BLE001 - The user's encode may raise anything.
                    check_no_interrupt(error)
                    self.save_fault = error
        if fresh:
            try:
                self._snapshots.write(fresh)
                self._decode_fault = None
            except OSError as error:
                # The next save has at least as much to write.
                self.save_fault = error
        return lost

    def check_saved(self) -> None:
        """Raise what the latest save failed with."""
        fault = self.save_fault
        if isinstance(fault, InvalidError):
            raise fault
        if fault is not None:
            raise UnavailableError(
                "the snapshot could not be written",
                view=self._view.name,
                reason=f"{type(fault).__qualname__}: {fault}",
            ) from fault

    def drop(self, partitions: Iterable[int]) -> None:
        """Remove these partitions from the snapshot; raises if it cannot be written."""
        if self._snapshots is not None and self._disown(partitions):
            self._snapshots.write({})

    def _disown(self, partitions: Iterable[int]) -> bool:
        """Stop using what is stored of these partitions; return whether there was any."""
        stored = [p for p in partitions if self.committed(p) >= 0]
        if self._snapshots is not None and stored:
            self._snapshots.disown(stored)
        return bool(stored)

    def _has_advanced(self, fold: Fold[StateT]) -> bool:
        is_whole = fold.is_loaded and fold.ending is None and not fold.is_released
        return is_whole and fold.mark.value - 1 > self.committed(fold.partition)

    def part(self, fold: Fold[StateT]) -> tuple[Section, bytes]:
        """Return a fold's stored form. DivergedError if the log has lost records of it."""
        if fold.position is not None:
            with contextlib.suppress(TrimmedError):
                self._log.resolve(fold.position)
        # The state's records must be durable before the state is stored.
        position = self._position(fold)
        stored = fold.encoded()
        fold.position = position
        section = Section(
            position=position.to_json().decode(),
            first=fold.first,
            quarantined=dict(fold.quarantined),
            refused=dict(fold.outcomes.refused),
            size=len(stored),
        )
        return section, stored

    def _position(self, fold: Fold[StateT]) -> Position:
        place = self._topic, fold.partition
        following = fold.mark.value
        if (high := self._log.marks(*place).high) < following:
            raise DivergedError(high, partition=fold.partition, offset=following)
        return self._log.position(*place, following)
