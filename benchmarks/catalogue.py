"""Every entry, family by family, in the order in which they are measured and shown."""

from benchmarks import append, coordinator

ENTRIES = (*coordinator.ENTRIES, *append.ENTRIES)
