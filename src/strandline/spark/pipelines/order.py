"""The arguments of a run's process, and its output."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class Order(msgspec.Struct, frozen=True):
    """What to run, and where Spark keeps its own."""

    folder: str
    spec: str
    catalog: str | None
    database: str | None
    storage: str
    #: All of the YAML's, since only a session that is not made yet takes them all.
    configuration: Mapping[str, str]
    master: str
    full_refresh: bool
    dry_run: bool


class OutputLine(msgspec.Struct, frozen=True):
    """A line of the answer."""

    what: Literal["event", "completed", "failed"]
    text: str
