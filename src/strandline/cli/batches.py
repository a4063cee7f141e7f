"""Batches that are made to fit the schema of a topic."""

from typing import TYPE_CHECKING

from strandline.values import InvalidError

if TYPE_CHECKING:
    import pyarrow as pa


def fitted(batch: "pa.RecordBatch", schema: "pa.Schema") -> "pa.RecordBatch":
    """Return a batch of these very columns as one of `schema`; any other as it is.

    InvalidError if that would lose anything.
    """
    import pyarrow as pa  # noqa: PLC0415 The same.

    if sorted(batch.schema.names) != sorted(schema.names):
        return batch
    try:
        return batch.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        reason = str(error)
        raise InvalidError("these rows do not fit the topic's schema", reason=reason) from error
