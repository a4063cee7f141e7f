"""Tiering: sealed records as Parquet in an object store, driven by a catalogue that is a view.

Promises: a record leaves the log's own storage only once a copy of it was read back and is
right; each step is told to the catalogue before it is taken, so that whoever comes after a
crash knows what to go on with; several processes may tier, sweep and read at once; what was
evicted reads as before, through the log. Objects are plain Parquet, for anything to read.

Does not promise that a copy is ever made: somebody calls `tier`, or runs a `TieringWorker`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from strandline.tiering.tiered_log import TieredLog

if TYPE_CHECKING:
    from strandline.tiering.catalogue import SegmentCatalogue
    from strandline.tiering.object_store import ObjectStore, open_store
    from strandline.tiering.removal import sweep
    from strandline.tiering.segment import CopiedSegment, SegmentState, UserPartition
    from strandline.tiering.tiering import TierReport, TierStep, tier
    from strandline.tiering.worker import TieringWorker

# Parquet takes a tenth of a second to import, which a log that is not tiered need not pay.
_LATER = {
    "CopiedSegment": "segment",
    "ObjectStore": "object_store",
    "SegmentCatalogue": "catalogue",
    "SegmentState": "segment",
    "TierReport": "tiering",
    "TierStep": "tiering",
    "TieringWorker": "worker",
    "UserPartition": "segment",
    "open_store": "object_store",
    "sweep": "removal",
    "tier": "tiering",
}

__all__ = [
    "CopiedSegment",
    "ObjectStore",
    "SegmentCatalogue",
    "SegmentState",
    "TierReport",
    "TierStep",
    "TieredLog",
    "TieringWorker",
    "UserPartition",
    "open_store",
    "sweep",
    "tier",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
