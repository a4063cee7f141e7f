"""A peer on an event loop, as a careful user would call it there."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.events import Sample
from benchmarks.stores.store import Opening
from strandline.values import Durability

THREADS = 16


class OnLoop:
    """Called as it is where that takes microseconds, and in threads where it waits for a sync."""

    def __init__(self, opening: Opening, path: Path, durability: Durability) -> None:
        self._store = opening(path, durability)
        waits = durability is Durability.DURABLE
        self._pool = ThreadPoolExecutor(THREADS) if waits else None

    async def append(self, sample: Sample) -> None:
        if self._pool is None:
            self._store.append(sample)
        else:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._pool, self._store.append, sample)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._store.close()
