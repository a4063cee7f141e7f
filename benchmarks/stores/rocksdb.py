"""RocksDB: number → event as a JSON array, with a write-ahead log."""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import msgspec
from rocksdict import DBCompressionType, Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from benchmarks.events import Payload, Sample
from benchmarks.stores.store import exhausted
from strandline.values import Durability

READAHEAD_BYTES = 4 << 20

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Sample).decode


class RocksDb:
    """Without `sync`, the write-ahead log is written before a put returns, and not synced."""

    def __init__(self, path: Path, durability: Durability) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(DBCompressionType.lz4())
        self._db = Rdict(str(path), options)
        write_options = WriteOptions()
        write_options.sync = durability is Durability.DURABLE
        self._db.set_write_options(write_options)
        self._write_options = write_options
        self._numbers = count()

    def append(self, sample: Sample) -> None:
        self._db[next(self._numbers).to_bytes(8)] = _encode(sample)

    def encoded(self, samples: Sequence[Sample]) -> list[bytes]:
        return [_encode(sample) for sample in samples]

    def append_encoded(self, events: list[bytes]) -> None:
        batch = WriteBatch(raw_mode=True)
        for event in events:
            batch[next(self._numbers).to_bytes(8)] = event
        self._db.write(batch, self._write_options)

    def scan(self) -> int:
        return exhausted(self._values())

    def payloads(self) -> Iterator[Payload]:
        for value in self._values():
            yield _decode(value).payload

    def settle(self) -> None:
        """Bring what was written into the form in which it stays."""
        self._db.flush()
        self._db.compact_range(None, None)

    def close(self) -> None:
        self._db.close()

    def _values(self) -> Iterator[bytes]:
        options = ReadOptions()
        options.set_readahead_size(READAHEAD_BYTES)
        return self._db.values(read_opt=options)
