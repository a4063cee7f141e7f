"""Tiering: sealed records as Parquet in an object store, driven by a catalogue that is a view.

Promises: a record leaves the log's own storage only after a copy of it was read back and
verified; each step is recorded in the catalogue before it is taken, so that recovery after a
crash knows how to continue; several processes may tier, sweep and read concurrently; evicted
records are read as before, through the log. Objects are plain Parquet, for any reader.

Does not promise that a copy is ever made: call `tier`, or run a `TieringWorker`.
"""

from strandline.tiering.catalogue import SegmentCatalogue
from strandline.tiering.object_store import ObjectStore, open_store
from strandline.tiering.pending_catalogue import PendingCatalogue
from strandline.tiering.removal import sweep
from strandline.tiering.segment import CopiedSegment, DeletionState, SegmentState, UserPartition
from strandline.tiering.tier_report import TierReport, TierStep
from strandline.tiering.tiered_store import Tier
from strandline.tiering.tiering import compact, tier
from strandline.tiering.worker import TieringWorker

__all__ = [
    "CopiedSegment",
    "DeletionState",
    "ObjectStore",
    "PendingCatalogue",
    "SegmentCatalogue",
    "SegmentState",
    "Tier",
    "TierReport",
    "TierStep",
    "TieringWorker",
    "UserPartition",
    "compact",
    "open_store",
    "sweep",
    "tier",
]
