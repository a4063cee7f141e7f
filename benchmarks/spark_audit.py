"""`spark.audit`: checking a topic, beside Spark reading every column of the same rows."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import samples
from benchmarks.sizes import Sizes
from benchmarks.spark import session
from benchmarks.stores.ours import event_of
from benchmarks.view import BATCH
from strandline.spark import jobs, table

HOT_PART = 10
SAMPLES = 20_000


def audits(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Return an audit of a topic with a tenth of it hot, beside a scan of plain Parquet."""
    spark = session(scratch.parent)
    url = f"file:{scratch / 'log'}"
    with sl.open(url) as log:
        fill(log, events)
    kept = max(1, events // HOT_PART)
    jobs.tier(spark, url, "events", f"file://{scratch / 'cold'}", piece_records=kept, local_bytes=0)
    plain = str(scratch / "plain")
    rows = table(spark, url, "events", include_metadata=True)
    rows.write.option("compression", "zstd").parquet(plain)
    return {
        "ours": partial(_audited, spark, url, events),
        "native": partial(_scanned, spark, plain, events),
        "narrow": partial(_counted, spark, plain, events),
    }


def fill(log: sl.Log, events: int) -> None:
    """Append so many events, which repeat after a while: their content does not matter here."""
    made = [event_of(sample) for sample in samples(min(events, SAMPLES))]
    log.create_topic("events")
    for at in range(0, events, BATCH):
        first = at % len(made)
        log.append_many("events", made[first : first + min(BATCH, events - at)])


def _audited(spark: SparkSession, url: str, events: int) -> float:
    report = jobs.audit(spark, url, ["events"])
    assert report.is_sound
    assert report.records == events
    return report.rows_per_s


def _scanned(spark: SparkSession, path: str, events: int) -> float:
    """Decode every column of every row, and throw them away."""
    started = now()
    spark.read.parquet(path).write.format("noop").mode("overwrite").save()
    return events / (now() - started)


def _counted(spark: SparkSession, path: str, events: int) -> float:
    """Decode two columns: shown without a bar, because an audit reads all columns."""
    started = now()
    assert spark.read.parquet(path).where("kind <> 'none' and key > 'a'").count() == events
    return events / (now() - started)


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entry, with rounds of these sizes."""
    return (
        Entry(
            name="spark.audit",
            unit="rows/s",
            contenders=partial(audits, events=sizes.audit_events),
            bars={"native": 0.3},
        ),
    )
