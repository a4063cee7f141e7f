"""A process that appends its part of the day, as it happens: `-m examples.demo.producer`."""

import json
import sys
import time
from pathlib import Path

import strandline as sl
from examples.demo.plan import SHOP, Plan
from examples.demo.shop import DAY_S, Offer, day


def main(folder: str, number: int, begins_at: float) -> None:
    """Append what this producer is given, from the wall-clock time `begins_at` on."""
    plan = Plan.load(folder)
    offers = [offer for offer in day(plan) if number in offer.producers]
    stored = repeats = 0
    with sl.open(plan.url) as log:
        for offer in offers:
            wait_s = begins_at + offer.arrives_s / DAY_S * plan.day_s - time.time()
            if wait_s > 0:
                time.sleep(wait_s)
            for _ in range(1 + offer.is_repeated):
                is_repeat = append(log, offer)
                stored += not is_repeat
                repeats += is_repeat
        log.flush()
    counts = {"stored": stored, "repeats": repeats}
    Path(plan.path(f"producer-{number}.json")).write_text(json.dumps(counts), encoding="utf-8")


def append(log: sl.Log, offer: Offer) -> bool:
    """Append an event; whether the log had it already, from any process."""
    return log.append(SHOP, offer.event(), idempotency_key=offer.id).is_repeat


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
