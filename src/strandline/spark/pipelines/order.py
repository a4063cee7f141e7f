"""The arguments of a run's process, and its output."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class Order(msgspec.Struct, frozen=True):
    """The pipeline to run, and the folder of Spark's own files."""

    folder: str
    spec: str
    catalog: str | None
    database: str | None
    storage: str
    #: All settings in the YAML, because some can only be set when a session is created.
    configuration: Mapping[str, str]
    master: str
    full_refresh: bool
    dry_run: bool


class OutputLine(msgspec.Struct, frozen=True):
    """A line of the program's output."""

    what: Literal["event", "completed", "failed"]
    text: str
