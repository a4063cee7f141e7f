"""A view's snapshot, read without running the view."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Generic
from uuid import UUID

from strandline.io import Io, SystemIo
from strandline.values import CorruptError, InvalidError, Position, UnavailableError
from strandline.values.arguments import check_path, check_whole
from strandline.views.snapshot import read_snapshot
from strandline.views.view import StateT, View, check_view


@dataclass(frozen=True, slots=True)
class SavedPartition:
    """One partition in a snapshot."""

    position: Position
    """The first offset not applied, with its epoch: `log.resolve` checks it."""
    first: int
    """The oldest offset in the state; above 0 if the topic was trimmed."""
    quarantined: Mapping[int, str]
    """For each quarantined record: its offset, and the reason."""
    refused: Mapping[int, str]
    """For the latest records that `apply` refused: their offsets, and the reasons."""
    encoded: bytes
    """The state, encoded by the view."""

    @property
    def applied(self) -> int:
        """The last offset applied."""
        return self.position.offset - 1


@dataclass(frozen=True, slots=True)
class SavedView(Generic[StateT]):
    """A snapshot of a view."""

    view: View[StateT]
    log_id: UUID
    topic_id: UUID
    topic_partitions: int
    """The number of the topic's partitions."""
    partitions: Mapping[int, SavedPartition]
    """The partitions in the snapshot, ascending."""

    def state(self, partition: int) -> StateT:
        """Return the state of a partition; each call decodes it again.

        InvalidError if the partition is not in the snapshot; CorruptError if `decode` fails.
        """
        saved = self.partitions.get(check_whole("partition", partition))
        if saved is None:
            raise InvalidError(
                "this partition is not in the snapshot",
                partition=partition,
                partitions=list(self.partitions),
            )
        try:
            return self.view.decode(saved.encoded)
        except Exception as error:
            raise CorruptError(
                "the view cannot decode this state, remove the snapshot to fold again",
                file=None,
                position=None,
                partition=partition,
            ) from error


def load_snapshot(
    path: str | PathLike[str], view: View[StateT], *, io: Io | None = None
) -> SavedView[StateT]:
    """Return what a view has saved at `path`. Changes nothing, and needs no log.

    InvalidError if there is no file, or it belongs to another view or version; CorruptError if
    it is damaged; UnavailableError if it cannot be read. Does not check that it still matches
    the log: use `log.resolve(saved.partitions[n].position)`.
    """
    check_view(view)
    file = check_path("path", path)
    try:
        binding, stored = read_snapshot(io or SystemIo(), file)
    except FileNotFoundError as error:
        raise InvalidError("there is no snapshot, check the path", file=file) from error
    except OSError as error:
        raise UnavailableError("the snapshot cannot be read", file=file) from error
    if (binding.view, binding.version) != (view.name, view.version):
        raise InvalidError(
            "this is the snapshot of another view, pass the view that made it",
            file=file,
            view=binding.view,
            version=binding.version,
        )
    partitions = {
        number: SavedPartition(
            Position.from_json(section.position.encode()),
            section.first,
            section.quarantined,
            section.refused,
            encoded,
        )
        for number, (section, encoded) in sorted(stored.items())
    }
    return SavedView(view, binding.log_id, binding.topic_id, binding.partitions, partitions)
