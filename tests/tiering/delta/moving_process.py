"""Appends, tiers, merges and trims a topic in a separate process, which may kill itself."""

import contextlib
import random
import sys

import strandline as sl
from strandline.tiering import SegmentCatalogue, open_store, tier
from strandline.values import UnavailableError
from tests.tiering.delta.equality import event
from tests.tiering.iceberg.tables import NAME, SteeredCatalog
from tests.tiering.tier_process import Dying


def main(url: str, store: str, seed: int, die_at: int) -> None:
    choice = random.Random(f"{seed} {die_at}")
    objects, dying = open_store(store), Dying(die_at)
    for name in ("put", "put_new", "get", "delete", "list"):
        dying.around(objects, name)
    for name in ("add", "change", "evict"):
        dying.around(SegmentCatalogue, name)
    dying.around(SteeredCatalog, "commit_table")
    with sl.open(url) as log:
        for _ in range(4):
            log.append_many("t", [event(choice.randrange(1000)) for _ in range(20)])
            # If others keep the catalogue of tables busy, the next round does the rest.
            with contextlib.suppress(UnavailableError):
                tier(
                    log,
                    "t",
                    objects,
                    piece_records=7,
                    include_open=True,
                    local_bytes=choice.choice([0, None]),
                    delta=True,
                    iceberg=NAME,
                    compact_bytes=choice.choice([None, 8_000, 1 << 30]),
                    grace_s=0,
                )
            if choice.random() < 0.3:
                partition = choice.randrange(2)
                marks = log.marks("t", partition)
                log.trim("t", partition, min(marks.low + choice.randrange(20), marks.high))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
