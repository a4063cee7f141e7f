"""Batches as Arrow streams: the same bytes as Arrow's own, however large they are."""

import pyarrow as pa
import pytest

from strandline.values.batches import decode_batch, encode_batch

ROWS = 20_000
TEXTS = pa.array([str(number) for number in range(ROWS)])
COLUMNS = {
    "texts": TEXTS,
    "numbers and nulls": pa.array([None, 1] * (ROWS // 2), pa.int32()),
    "times": pa.array(range(ROWS), pa.timestamp("us", "UTC")),
    "a few words": pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
    "as many words as rows": TEXTS.dictionary_encode(),
    "lists": pa.array([[1, 2]] * ROWS),
    "structs": pa.array([{"a": 1, "b": "c"}] * ROWS),
    "views": TEXTS.cast(pa.string_view()),
    "nulls": pa.nulls(ROWS),
}


def stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the batch as Arrow itself writes it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_batch_is_encoded_as_arrow_does_it(kind: str) -> None:
    whole = pa.record_batch({"x": COLUMNS[kind]})
    described = whole.replace_schema_metadata({"about": "x" * 10_000})

    for batch in (whole, whole.slice(3, ROWS - 70), whole.slice(5, 1), described):
        encoded = encode_batch(batch)

        assert encoded.equals(stream_of(batch))
        assert decode_batch(encoded).equals(batch, check_metadata=True)
