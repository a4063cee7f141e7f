"""Follows the topic live, from its first record on, and keeps account."""

import threading
import time
from collections import Counter

import strandline as sl
from examples.demo.plan import SHOP

_LATENCIES_KEPT = 200_000


class Tail:
    """A thread that reads each record as it comes."""

    def __init__(self, log: sl.Log) -> None:
        self.seen = 0
        self.gaps = 0
        self.latest = ""
        self._latencies_ms: list[float] = []
        self._next: Counter[int] = Counter()
        self._subscription = log.subscribe(SHOP, start=sl.EARLIEST)
        self._thread = threading.Thread(target=self._follow, name="tail", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        for record in self._subscription:
            self.gaps += record.offset != self._next[record.partition]
            self._next[record.partition] = record.offset + 1
            self.seen += 1
            self.latest = f"{record.partition}:{record.offset} {record.kind}"
            if len(self._latencies_ms) < _LATENCIES_KEPT:
                self._latencies_ms.append(time.time() * 1e3 - record.timestamp_us / 1e3)

    def latency_ms(self, share: float) -> float:
        """Return from append to delivery, so that this share took no longer."""
        found = sorted(self._latencies_ms)
        return found[min(len(found) - 1, int(share * len(found)))] if found else 0.0

    def close(self) -> None:
        self._subscription.close()
        self._thread.join()
