"""Every entry, family by family, in the order in which they are measured and shown."""

from benchmarks import coordinator

ENTRIES = (*coordinator.ENTRIES,)
