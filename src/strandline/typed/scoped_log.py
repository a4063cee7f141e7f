"""Scopes as a method of a log."""

from typing import Protocol

from strandline.subscriptions import SubscribableLog
from strandline.typed.readers import Readers
from strandline.typed.scope import Scope
from strandline.typed.versions import SchemaVersions


class ScopedLog(SubscribableLog, Protocol):
    """A log that is open, with what this room adds to it.

    A backend becomes one by inheriting from it, after its own class.
    """

    def scope(self, tenant: str | None = None) -> Scope:
        """Return the log as this tenant may see it; without one, as nobody may.

        InvalidError for what is no tenant's name: nothing else stands for nobody but None.
        """
        # Shared by all scopes of this log object; the first to come makes them.
        kept = self.__dict__
        versions = kept.setdefault("_schema_versions", SchemaVersions())
        readers = kept.setdefault("_readers", Readers())
        return Scope(self, tenant, versions=versions, readers=readers, clock=kept.get("clock"))
