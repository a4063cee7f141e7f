"""The driver that `test_cluster.py` starts: reads, streams and writes, and checks, on a cluster.

Says what it found as JSON in its last line.
"""

import json
import os
import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from strandline.spark import cluster_session, jobs
from tests.spark_session import QUICK_START, quick_java


def main(master: str, url: str, folder: str, store: str) -> None:
    spark = cluster_session(master, folder, settings=_settings())
    spark.sparkContext.setLogLevel("ERROR")
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


def _copy(spark: SparkSession, url: str, folder: str) -> None:
    rows = (
        spark.readStream.format("strandline")
        .options(subscribe="numbers", startingOffsets="earliest", maxOffsetsPerTrigger="100")
        .load(url)
        .repartition(2)
    )
    for is_last in (False, False, False, False, True):
        query = (
            rows.writeStream.format("strandline")
            .options(topic="copy", checkpointLocation=os.path.join(folder, "checkpoint"))
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
    stores = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
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
