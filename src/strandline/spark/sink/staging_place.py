"""Where the rows for a log are staged: with the log, or in an object store."""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from strandline.opening import staging_path
from strandline.spark.sink.folder import AppFolder, app_folders
from strandline.spark.sink.object_folder import ObjectFolder, object_folders
from strandline.spark.sink.place import StagingFolder
from strandline.tiering.delta.transaction_log import CommitStore, commit_store
from strandline.tiering.object_store import store_of
from strandline.values import InvalidError

#: A prefix in an object store that may have other content.
_ROOT = "strandline-staging"


class StagingPlace(NamedTuple):
    """The staging place of one log: `location` is an object store's URL, or None."""

    url: str
    location: str | None

    def check(self) -> None:
        """Raise InvalidError unless rows can be staged there."""
        if self.location is None:
            self._path()
        elif staging_path(self.url) is not None:
            raise InvalidError(
                "rows for this log are staged beside it, leave stagingLocation out",
                url=self.url,
                stagingLocation=self.location,
            )
        else:
            _store(self.location)

    def folder(self, log_id: UUID, app: str) -> StagingFolder:
        """Return the folder of an app."""
        if self.location is None:
            return AppFolder(self._path(), app)
        return ObjectFolder(_store(self.location), _root(log_id), app)

    def folders(self, log_id: UUID) -> Iterable[StagingFolder]:
        """Return the folders of all apps."""
        if self.location is None:
            return app_folders(self._path())
        return object_folders(_store(self.location), _root(log_id))

    def _path(self) -> str:
        path = staging_path(self.url)
        if path is None:
            raise InvalidError(
                "such a log has no disk on which all tasks could stage rows, name an object store "
                "that they reach with the option stagingLocation, s3://bucket/path for instance",
                url=self.url,
            )
        return path


def _store(location: str) -> CommitStore:
    return commit_store(store_of(location))


def _root(log_id: UUID) -> str:
    return f"{_ROOT}/{log_id}"
