"""Arrow's class of datasets, with the types that pyarrow does not declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    class ArrowDataset:
        """`pyarrow.dataset.InMemoryDataset`, as far as it is the same for each dataset."""

        def __init__(self, source: pa.Table) -> None: ...
        def count_rows(self, **options: Any) -> int:
            """Return how many rows there are, of those that meet `filter`."""

        def head(self, num_rows: int, **options: Any) -> pa.Table:
            """Return the first rows."""

        def take(self, indices: Any, **options: Any) -> pa.Table:
            """Return the rows at these places."""

        def to_batches(self, **options: Any) -> Iterator[pa.RecordBatch]:
            """Yield the rows as record batches."""

        def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002 - Arrow's name of it.
            """Return the rows as a table."""

else:
    ArrowDataset = ds.InMemoryDataset
