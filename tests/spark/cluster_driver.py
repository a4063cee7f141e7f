"""The driver that `test_cluster.py` starts: reads, streams and writes, and checks, on a cluster.

Says what it found as JSON in its last line. With a place for staged rows the log is a server's:
what the executors can see of `hidden`, the log's folder, is said too.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from strandline.spark import cluster_session, jobs, table
from tests.spark_session import QUICK_START, quick_java


def main(master: str, url: str, folder: str, store: str, hidden: str | None = None) -> None:
    spark = cluster_session(master, folder, settings=_settings())
    spark.sparkContext.setLogLevel("ERROR")
    if hidden is not None:
        _on_a_server(spark, url, folder, store, hidden)
        return
    found = {
        "code": _code_of_executors(spark),
        "rows": spark.read.format("strandline").option("subscribe", "numbers").load(url).count(),
    }
    _copy(spark, url, folder)
    tiered = jobs.tier(spark, url, "copy", store, include_open=True, local_bytes=0)
    audited = jobs.audit(spark, url, ["numbers", "copy"])
    found |= {"tiered": tiered.done.copied_records, "is_sound": audited.is_sound}
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


def _on_a_server(spark: SparkSession, url: str, folder: str, store: str, hidden: str) -> None:
    _copy(spark, url, folder, stagingLocation=store)
    numbers = table(spark, url, "numbers").select("kind", "key", "payload")
    written = numbers.write.format("strandline").mode("append")
    written.options(topic="copy", stagingLocation=store).save(url)
    derived = jobs.derive(
        *(spark, url, "copy", "derived"), checkpoint=f"{folder}/derived", staging=store
    )
    plan = str(numbers._jdf.queryExecution())  # noqa: SLF001 # What `explain` prints.
    found = {
        "seen": _listing_of_executors(spark, hidden),
        "derived": derived.rows,
        "is_sound": jobs.audit(spark, url, ["numbers", "copy"]).is_sound,
        "secrets": _secrets(plan, folder),
    }
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


def _secrets(plan: str, folder: str) -> list[str]:
    """Return where the token is in clear text: in plans, and in the checkpoint."""
    token = os.environ["STRANDLINE_TOKEN"]
    kept = {
        str(each): each.read_bytes()
        for each in Path(folder, "checkpoint").rglob("*")
        if each.is_file()
    }
    kept["plan"] = plan.encode()
    return [name for name, content in kept.items() if token.encode() in content]


def _listing_of_executors(spark: SparkSession, path: str) -> list[str]:
    def look(_: int) -> str:
        try:
            return str(os.listdir(path))
        except OSError as error:
            return type(error).__name__

    return sorted(set(spark.sparkContext.parallelize([0, 1], 2).map(look).collect()))


def _copy(spark: SparkSession, url: str, folder: str, **options: str) -> None:
    rows = (
        spark.readStream.format("strandline")
        .options(subscribe="numbers", startingOffsets="earliest", maxOffsetsPerTrigger="100")
        .load(url)
        .repartition(2)
    )
    for is_last in (False, False, False, False, True):
        query = (
            rows.writeStream.format("strandline")
            .options(topic="copy", checkpointLocation=os.path.join(folder, "checkpoint"), **options)
            .trigger(availableNow=True)
            .start(url)
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            # Spark gives a Python ten seconds to start, and a busy machine may need more.
            if is_last or "failed to connect back" not in str(error):
                raise
        else:
            return


def _code_of_executors(spark: SparkSession) -> list[str]:
    def where(_: int) -> str:
        import strandline  # noqa: PLC0415 # That of the executor.

        return str(strandline.__file__)

    return sorted(set(spark.sparkContext.parallelize([0, 1], 2).map(where).collect()))


def _settings() -> dict[str, str]:
    needed = ("AWS_", "STRANDLINE_TOKEN")
    stores = {name: value for name, value in os.environ.items() if name.startswith(needed)}
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": quick_java(),
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        **{f"spark.executorEnv.{name}": value for name, value in stores.items()},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
