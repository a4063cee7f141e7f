"""Checkpoints of a Delta table, so that readers need not start from its first commit."""

import logging
from types import ModuleType
from typing import Final
from urllib.parse import quote

from strandline.tiering.object_store import ObjectStore, is_in_memory
from strandline.values import InvalidError
from strandline.values.extras import needing

COMMITS: Final = 50
"""The number of commits between two checkpoints."""

_logger = logging.getLogger("strandline")


def require_deltalake() -> ModuleType:
    """Import deltalake; if it is missing, InvalidError with the extra that installs it."""
    with needing("deltalake", "delta"):
        import deltalake  # noqa: PLC0415 - An extra.
        import deltalake.exceptions  # noqa: PLC0415 - As above.
    return deltalake


def checkpoint(store: ObjectStore, folder: str, version: int) -> None:
    """Write a checkpoint after every COMMITS versions, if deltalake supports the store.

    The table is the same without; if it fails, the next one is written later.
    """
    if (version + 1) % COMMITS or is_in_memory(store):
        return
    try:
        deltalake = require_deltalake()
    except InvalidError:
        return
    try:
        deltalake.DeltaTable(f"{store.url.rstrip('/')}/{quote(folder)}").create_checkpoint()
    except (deltalake.exceptions.DeltaError, OSError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        _logger.warning("no checkpoint of the Delta table %s was written: %s", folder, reason)
