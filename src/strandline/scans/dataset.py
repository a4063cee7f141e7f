"""A topic as an Arrow dataset, for DuckDB, polars and other readers of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from strandline.log import parts_of
from strandline.log.arrow_streams import ARROW_STREAMS
from strandline.log.parts import unsendable
from strandline.scans.reading import ScanRead
from strandline.values.extras import needing
from strandline.values.prompt import few, prompt_text

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    class ArrowDataset:
        """The methods of `pyarrow.dataset.InMemoryDataset` that all datasets have, typed."""

        def __init__(self, source: pa.Table) -> None: ...
        def count_rows(self, **options: Any) -> int:
            """Return the number of rows that meet `filter`."""

        def head(self, num_rows: int, **options: Any) -> pa.Table:
            """Return the first rows."""

        def take(self, indices: Any, **options: Any) -> pa.Table:
            """Return the rows at these indices."""

        def to_batches(self, **options: Any) -> Iterator[pa.RecordBatch]:
            """Yield the rows as record batches."""

        def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002 - Arrow's name of it.
            """Return the rows as a table."""

else:
    ArrowDataset = ds.InMemoryDataset


# Without its own scanner every method would read the empty table below.
class Scan(ArrowDataset):
    """The rows of a topic between fixed ends; `log.scan` returns it.

    It is a `pyarrow.dataset.Dataset`: DuckDB reads a variable that holds one by its name,
    with the columns and filters of the query pushed down. `to_polars` does so for polars.
    Rows are ordered by partition and offset. Each read returns the same rows, or raises
    TrimmedError if a trim has removed some of them. Any thread may use it while its log
    is open.
    """

    def __init__(self, read: ScanRead, names: Sequence[str]) -> None:
        self._read = read
        self._shown = read.narrow(names)
        super().__init__(self._shown.empty_table())

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._shown

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:  # noqa: A002 - Arrow's name of it.
        """Return a `pyarrow.dataset.Scanner` of these columns, for rows that meet the filter."""
        names = self._needed(columns, filter)
        batches = self._read.batches(names, filter)
        reader = ARROW_STREAMS.reader(self._read.narrow(names), batches)
        chosen = self._shown.names if columns is None else columns
        return ds.Scanner.from_batches(reader, columns=chosen, filter=filter, **options)

    def _needed(self, columns: Any, arrow_filter: Any) -> Sequence[str]:
        """Return the columns to read; all of them if an expression may name any."""
        shown: list[str] = self._shown.names
        if isinstance(columns, dict) or not set(columns or ()).issubset(shown):
            return shown
        if columns is None:
            return shown
        names = [name for name in shown if name in columns] or shown[:1]
        if arrow_filter is not None:
            try:
                schema = self._read.narrow(names)
                ds.Scanner.from_batches(iter(()), schema=schema, filter=arrow_filter)
            except pa.ArrowInvalid:
                return shown
        return names

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches."""
        return self._read.batches(self._shown.names)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a stream of the rows, to be read once."""
        return ARROW_STREAMS.reader(self._shown, iter(self))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to Arrow's C stream interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_polars(self) -> pl.LazyFrame:
        """Return a lazy frame; its selections and filters are pushed down.

        InvalidError without polars, which the extra `scan` installs.
        """
        with needing("polars", "scan"):
            from strandline.scans.lazy_frame import lazy_frame  # noqa: PLC0415 - An extra.
        return lazy_frame(self._read, self._shown)

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return a relation on a connection, or on DuckDB's default connection.

        InvalidError without DuckDB, which the extra `scan` installs.
        """
        with needing("DuckDB", "scan"):
            import duckdb  # noqa: PLC0415 - An extra.
        return duckdb.from_arrow(self) if connection is None else connection.from_arrow(self)

    # --- operations that Arrow has only for rows in memory ---

    def _loaded(self, arrow_filter: Any = None) -> Any:
        return ds.InMemoryDataset(self.to_table(filter=arrow_filter))

    def filter(self, expression: Any) -> Any:
        """Return a dataset of the rows that meet an expression, loaded."""
        return self._loaded(expression)

    def get_fragments(self, filter: Any = None) -> Any:  # noqa: A002 - As above.
        """Yield the rows as one fragment, loaded."""
        return self._loaded(filter).get_fragments()

    def replace_schema(self, schema: pa.Schema) -> Any:
        """Return a dataset of the rows with another schema, loaded."""
        return self._loaded().replace_schema(schema)

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """Return a dataset of the rows in another order, loaded."""
        return self._loaded().sort_by(sorting, **options)

    def join(self, *args: Any, **options: Any) -> Any:
        """Return a dataset of the rows joined with another dataset's, loaded."""
        return self._loaded().join(*args, **options)

    def join_asof(self, *args: Any, **options: Any) -> Any:
        """Return a dataset of the rows joined with another dataset's by time, loaded."""
        return self._loaded().join_asof(*args, **options)

    def __repr__(self) -> str:
        return prompt_text("Scan", self._read.topic.name, few(self._shown.names))

    def __reduce__(self) -> NoReturn:
        raise unsendable(parts_of(self._read.log).store.url)
