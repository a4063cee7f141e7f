"""LMDB: number → event as a JSON array, one transaction for each call."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import lmdb
import msgspec

from benchmarks.events import Payload, Sample
from benchmarks.stores.store import exhausted
from strandline.values import Durability

#: Address space, not storage.
MAP_BYTES = 16 << 30

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Sample).decode


class Lmdb:
    """Without `sync`, pages are written to the file as a transaction ends, and not synced."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self._environment = lmdb.open(
            str(path),
            map_size=MAP_BYTES,
            sync=durability is Durability.DURABLE,
            writemap=False,
            max_dbs=0,
        )
        # LMDB has one writer at a time; a lock that lets the others sleep costs least.
        self._turn = threading.Lock()
        self._next = self._environment.stat()["entries"]

    def append(self, sample: Sample) -> None:
        value = _encode(sample)
        with self._turn, self._environment.begin(write=True) as transaction:
            transaction.put(self._next.to_bytes(8), value, append=True)
            self._next += 1

    def encoded(self, samples: Sequence[Sample]) -> list[bytes]:
        return [_encode(sample) for sample in samples]

    def append_encoded(self, events: list[bytes]) -> None:
        with self._turn:
            items = [(n.to_bytes(8), event) for n, event in enumerate(events, self._next)]
            with self._environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(items, append=True)
            self._next += len(items)

    def scan(self) -> int:
        with self._environment.begin() as transaction:
            return exhausted(transaction.cursor().iternext(keys=False, values=True))

    def payloads(self) -> Iterator[Payload]:
        with self._environment.begin(buffers=True) as transaction:
            for value in transaction.cursor().iternext(keys=False, values=True):
                yield _decode(value).payload

    def close(self) -> None:
        self._environment.close()
