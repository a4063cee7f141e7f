"""Threads that append, read and count in one log, for cores built with the thread sanitizer.

python -m tests.core.thread_check LIBRARY FOLDER
"""

import sys
import threading
from typing import Any

from tests.core.lane_check import use

THREADS = 4
ROUNDS = 150


def check(folder: str) -> None:
    """Raise AssertionError unless every record of every thread is there once."""
    import strandline as sl  # noqa: PLC0415 - After the core was chosen.

    with sl.open(f"file:{folder}/log") as log:
        log.create_topic("t")
        counts = [0] * THREADS
        failed: list[BaseException] = []

        def work(number: int) -> None:
            try:
                counts[number] = _append(sl, log, number)
            except BaseException as error:
                failed.append(error)
                raise

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        log.append("t", sl.Event("first"))
        subscriptions = [log.subscribe("t") for _ in range(2)]
        seen: list[list[int]] = [[] for _ in subscriptions]
        readers = [
            threading.Thread(target=_read_all, args=pair)
            for pair in zip(subscriptions, seen, strict=True)
        ]
        for thread in (*readers, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        log.append("t", sl.Event("last"))
        for reader in readers:
            reader.join()
        counts.append(2)
        assert seen == [list(range(sum(counts)))] * 2
        found = [record.offset for record in log.read("t", 0, 0)]
        assert found == list(range(sum(counts)))
        assert log.metrics().records == len(found)


def _read_all(subscription: Any, seen: list[int]) -> None:
    """Follow the others to the last of their events."""
    for record in subscription:
        seen.append(record.offset)
        if record.value.kind == "last":
            break
    subscription.close()


def _append(sl: Any, log: Any, number: int) -> int:
    """Append in every way in turn; return how many records it were."""
    # Eight of these are written without the interpreter's lock.
    large, small = sl.Event("large", "x" * 20_000), sl.Event("small", {"n": 1})
    count = 0
    for turn in range(ROUNDS):
        if turn % 10 == number:
            count += len(log.append_many("t", [large] * 8))
            continue
        terms: dict[str, Any] = {}
        if turn % 17 == 0:
            terms = {"idempotency_key": f"{number} {turn}"}
        elif turn % 5 == 3:
            terms = {"durability": "durable"}
        assert log.append("t", small, **terms).level is not None
        count += 1
        if turn % 20 == 0:
            log.metrics()
            for _ in log.read("t", 0, 0, bytes_max=100_000):
                pass
    return count


if __name__ == "__main__":
    use(sys.argv[1])
    check(sys.argv[2])
