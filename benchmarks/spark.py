"""`spark.*`: topics as tables and streams, beside Spark alone in the same session."""

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.sizes import Sizes
from benchmarks.view import filled
from strandline.spark import local_session, table
from strandline.spark.source import StrandlineSource
from strandline.tiering import tier
from tests.logs import file_log
from tools.kafka_jars import connector_is_there, connector_jars

#: A small micro-batch.
BATCH_ROWS = 100
HOT_PART = 10
#: What a micro-batch of a Python source may take more than 1.2 times one of the rate source.
PYTHON_MS = 40

_numbers = itertools.count()


@cache
def session(scratch: Path) -> SparkSession:
    """Return the session of the run; its own files lie beside those of the entries."""
    folder = tempfile.mkdtemp(prefix="spark-", dir=scratch)
    jars = ",".join(map(str, connector_jars().iterdir())) if connector_is_there() else ""
    settings = {"spark.jars": jars} if jars else {}
    spark = local_session(folder, name="benchmarks", heap="2g", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(Bare)
    return spark


# --- spark.table.* ---


def tables(
    scratch: Path, *, events: int, hot: int = 0, query: str = "filter"
) -> Mapping[str, Contender]:
    """Return a query over `table`, beside the same over plain Parquet of the same rows."""
    spark = session(scratch.parent)
    url = f"file:{scratch / 'log'}"
    with filled(url, events) as log:
        tier(log, "events", f"file://{scratch / 'cold'}", include_open=True, local_bytes=0)
        source = spark.read.format("strandline").option("subscribe", "events")
        plain = str(scratch / "plain")
        source.load(url).write.option("compression", "zstd").parquet(plain)
        if hot:
            _append_again(log, hot)
    wanted = events + hot
    ask = {"filter": _filtered, "group": _grouped}[query]
    native = partial(_natively, spark, plain, hot, events)
    ours = partial(table, spark, url, "events", columns=["kind", "key"])
    return {
        "ours": partial(_asked, ask, ours, wanted),
        "native": partial(_asked, ask, native, wanted),
    }


def _append_again(log: sl.Log, count: int) -> None:
    values = [record.event for record in log.read("events", 0, 0, records_max=count)]
    for at in range(0, count, 1000):
        log.append_many("events", values[at : at + 1000])


def _natively(spark: SparkSession, path: str, hot: int, events: int) -> DataFrame:
    """Return as many rows as ours has, all of them Parquet."""
    rows = spark.read.parquet(path)
    return rows if not hot else rows.union(rows.sample(fraction=hot / events, seed=1))


def _filtered(rows: DataFrame) -> int:
    return rows.where("kind <> 'none' and key > 'a'").count()


def _grouped(rows: DataFrame) -> int:
    return len(rows.groupBy("key").count().collect())


def _asked(ask: Any, frame: Any, rows: int) -> float:
    started = now()
    answer = ask(frame())
    elapsed_s = now() - started
    assert answer > 0
    return rows / elapsed_s


# --- spark.stream ---


def streaming(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Return a query that reads all, beside a source that yields the same rows from memory."""
    spark = session(scratch.parent)
    url = f"file:{scratch / 'log'}"
    filled(url, events).close()
    with file_log(str(scratch / "log")) as log:
        log.seal("events")
    stored = str(scratch / "rows.arrow")
    _store_rows(url, stored)
    ours = spark.readStream.format("strandline").option("subscribe", "events")
    bare = spark.readStream.format("bare").option("rows", stored)
    return {
        "ours": partial(
            _streamed, ours.option("startingOffsets", "earliest"), url, scratch, events
        ),
        "bare": partial(_streamed, bare, None, scratch, events),
    }


def _store_rows(url: str, path: str) -> None:
    """Store the record batches that our source yields; each reader maps them into memory."""
    made = StrandlineSource({"path": url, "subscribe": "events"})
    reader = made.reader(made.schema())
    batches: list[Any] = [b for part in reader.partitions() for b in reader.read(part)]
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, batches[0].schema) as file:
        for batch in batches:
            file.write_batch(batch)


def _streamed(reader: Any, url: str | None, scratch: Path, rows: int) -> float:
    query = _started(reader.load(url) if url else reader.load(), scratch)
    started = now()
    query.awaitTermination()
    elapsed_s = now() - started
    assert sum(each.numInputRows for each in query.recentProgress) == rows
    return rows / elapsed_s


def _started(frame: DataFrame, scratch: Path, **trigger: Any) -> Any:
    writer = frame.writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(scratch / f"checkpoint-{next(_numbers)}"))
    return writer.trigger(**trigger or {"availableNow": True}).start()


# --- spark.microbatch ---


def small_batches(scratch: Path, *, batches: int) -> Mapping[str, Contender]:
    """Return the median time of a small micro-batch, in ms."""
    spark = session(scratch.parent)
    url = f"file:{scratch / 'log'}"
    rows = batches * BATCH_ROWS
    filled(url, rows).close()
    stored = str(scratch / "rows.arrow")
    _store_rows(url, stored)
    ours = spark.readStream.format("strandline").option("subscribe", "events")
    ours = ours.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", BATCH_ROWS)
    bare = spark.readStream.format("bare").option("rows", stored).option("batch", BATCH_ROWS)
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS)
    return {
        "ours": partial(_median_ms, ours, url, scratch, batches),
        "bare": partial(_median_ms, bare, None, scratch, batches),
        "rate": partial(_median_rate_ms, rate, scratch, batches),
        "wanted": lambda: 1.2 * _median_rate_ms(rate, scratch, batches) + PYTHON_MS,
    }


def _median_ms(reader: Any, url: str | None, scratch: Path, batches: int) -> float:
    query = _started(reader.load(url) if url else reader.load(), scratch)
    query.awaitTermination()
    return _median(query, batches)


def _median_rate_ms(reader: Any, scratch: Path, batches: int) -> float:
    """The built-in source never ends; it is stopped after as many micro-batches."""
    query = _started(reader.load(), scratch, processingTime="0 seconds")
    while (query.lastProgress or {"batchId": -1})["batchId"] < batches:
        query.awaitTermination(0.05)
    query.stop()
    return _median(query, batches)


def _median(query: Any, batches: int) -> float:
    took = [each.durationMs["triggerExecution"] for each in query.recentProgress]
    return float(median(took[1 : batches + 1] or took))


class Bare(DataSource):
    """A minimal Python source: record batches that are in memory already."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return (
            "kind string, key string, payload string, "
            "headers map<string,string>, occurred_at timestamp"
        )

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 # Spark's.
        return BareReader(self.options["rows"], int(self.options.get("batch", 0)))


class BareReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Counts rows; plans one task for each micro-batch."""

    def __init__(self, path: str, batch_rows: int) -> None:
        self._path = path
        self._batch_rows = batch_rows
        self._rows = sum(batch.num_rows for batch in self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self._path) as mapped:
            file = pa.ipc.open_file(mapped)
            for number in range(file.num_record_batches):
                yield file.get_batch(number)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 # Spark's names, as below.
        return {"at": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing is added."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        return {"at": min(self._rows, start["at"] + (self._batch_rows or self._rows))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        start, end = partition.value
        at = 0
        for batch in self._batches():
            first, last = max(start - at, 0), min(end - at, batch.num_rows)
            if first < last:
                yield batch.slice(first, last - first)
            at += batch.num_rows


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries, with rounds of these sizes."""
    events, hot = sizes.spark_events, sizes.spark_events // HOT_PART
    cold = partial(tables, events=events)
    mixed = partial(tables, events=events - hot, hot=hot)
    return (
        Entry(
            name="spark.table.filter",
            unit="rows/s",
            contenders=partial(cold, query="filter"),
            bars={"native": 0.8},
            rounds=5,
        ),
        Entry(
            name="spark.table.group",
            unit="rows/s",
            contenders=partial(cold, query="group"),
            bars={"native": 0.8},
            rounds=5,
        ),
        Entry(
            name="spark.table.hot",
            unit="rows/s",
            contenders=partial(mixed, query="group"),
            bars={"native": 0.9},
            rounds=5,
        ),
        Entry(
            name="spark.stream",
            unit="rows/s",
            contenders=partial(streaming, events=events),
            bars={"bare": 0.9},
            rounds=5,
        ),
        Entry(
            name="spark.microbatch",
            unit="ms",
            contenders=partial(small_batches, batches=sizes.spark_batches),
            bars={"bare": 0.9, "wanted": 1.0},
        ),
    )
