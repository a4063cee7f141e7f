"""Every entry, family by family, in the order in which they are measured and shown."""

from benchmarks import append, coordinator, view

ENTRIES = (*coordinator.ENTRIES, *append.ENTRIES, *view.ENTRIES)
