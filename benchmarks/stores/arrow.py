"""pyarrow alone: an IPC file of record batches, read through a memory map."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pyarrow as pa

from benchmarks.columns import SCHEMA, batch_of
from benchmarks.events import Payload, Sample
from strandline.values import Durability

_decode_payload = msgspec.json.Decoder(Payload).decode
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode


class ArrowFile:
    """No checksums and no offsets; what one object wrote, another reads once it is closed."""

    def __init__(self, path: Path, durability: Durability) -> None:
        assert durability is Durability.WRITTEN
        self._path = str(path)
        self._ending = ExitStack()
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def append(self, sample: Sample) -> None:
        self.append_encoded(self.encoded([sample]))

    def encoded(self, samples: Sequence[Sample]) -> "list[pa.RecordBatch]":
        return [batch_of(samples)]

    def append_encoded(self, events: "list[pa.RecordBatch]") -> None:
        if self._writer is None:
            file = self._ending.enter_context(pa.OSFile(self._path, "wb"))
            self._writer = self._ending.enter_context(pa.ipc.new_stream(file, SCHEMA))
        for batch in events:
            self._writer.write_batch(batch)

    def scan(self) -> int:
        return sum(batch.num_rows for batch in self._batches())

    def payloads(self) -> Iterator[Payload]:
        for batch in self._batches():
            kinds, keys, payloads, headers, times = (
                column.to_pylist() for column in _plain(batch).columns
            )
            for kind, key, payload, header, at_us in zip(
                kinds, keys, payloads, headers, times, strict=True
            ):
                sample = Sample(kind, key, _decode_payload(payload), _decode_headers(header), at_us)
                yield sample.payload

    def close(self) -> None:
        self._ending.close()

    def _batches(self) -> "Iterator[pa.RecordBatch]":
        with pa.memory_map(self._path) as mapped, pa.ipc.open_stream(mapped) as stream:
            yield from stream


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the times as numbers, which are made into objects faster than datetimes."""
    at = batch.schema.get_field_index("occurred_at")
    return batch.set_column(at, "occurred_at", batch.column(at).cast(pa.int64()))
