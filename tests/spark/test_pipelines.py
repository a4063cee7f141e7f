"""Declarative pipelines over topics, run as a user runs them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.spark import pipelines
from strandline.spark.file_paths import literal_path
from strandline.spark.pipelines.specification import load_specification
from strandline.values import InvalidError, UnavailableError
from tests.server.processes import ServerProcess

ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'log'}"


@pytest.fixture
def log(url: str) -> Iterator[sl.Log]:
    with sl.open(url) as opened:
        for topic in ("orders", "large_orders"):
            opened.create_topic(topic, partitions=2)
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> str:
    pipelines.init(str(tmp_path / "shop"))
    return str(tmp_path / "shop")


def order(log: sl.Log, amounts: range) -> None:
    events = [sl.Event("order.created", {"amount": n}, key=f"c-{n % 5}") for n in amounts]
    log.append_many("orders", events)


def large(log: sl.Log) -> list[float]:
    return amounts(log, "large_orders")


def amounts(log: sl.Log, topic: str) -> list[float]:
    parts = range(log.describe_topic(topic).settings.partitions)
    return sorted(record.payload["amount"] for part in parts for record in log.read(topic, part, 0))


def table(spark: SparkSession, folder: str, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table, without what a killed run has left beside it."""
    path = os.path.join(folder, "spark", "warehouse", name)
    return [row.asDict() for row in spark.read.parquet(literal_path(path)).collect()]


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")

    with pytest.raises(InvalidError, match="not empty"):
        pipelines.init(str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "name: x\n", "[", "storage: {}\nconfiguration: 3\n"])
def test_yaml_that_is_no_pipeline_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(text)

    with pytest.raises(InvalidError, match="YAML"):
        pipelines.run(str(tmp_path))


@pytest.mark.parametrize("name", ["plain", "'x'", "é=+&$!()@~", "~", "-", "007", "no"])
def test_a_specification_names_its_folder_whatever_characters_it_has(
    tmp_path: Path, name: str
) -> None:
    path = pipelines.init(str(tmp_path / name))

    found = load_specification(os.path.dirname(path))

    assert found.storage == f"file://{tmp_path / name}/storage"


@pytest.mark.parametrize("character", ' [{,:;#%*?\\"<`|^]}\n')
def test_a_folder_that_spark_would_misread_is_refused_and_nothing_is_written(
    tmp_path: Path, character: str
) -> None:
    name = f"a{character}b"
    with pytest.raises(InvalidError, match="misread") as caught:
        pipelines.init(str(tmp_path / name))
    assert caught.value.fields["refused"] == character
    assert [*tmp_path.iterdir()] == []

    pipelines.init(str(tmp_path / "shop"))
    (tmp_path / "shop").rename(tmp_path / name)
    with pytest.raises(InvalidError, match="misread"):
        pipelines.run(str(tmp_path / name))
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert not (tmp_path / name / "spark").exists()


def test_a_storage_that_spark_would_misread_is_refused(tmp_path: Path) -> None:
    spec = Path(pipelines.init(str(tmp_path / "shop")))
    spec.write_text("name: shop\nstorage: s3a://bucket/a b\n")

    with pytest.raises(InvalidError, match="misread"):
        pipelines.run(str(tmp_path / "shop"))


def test_a_folder_without_a_pipeline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="has one spark-pipeline"):
        pipelines.run(str(tmp_path))


@pytest.mark.heavy
def test_a_killed_run_is_continued_and_the_next_is_incremental(
    spark: SparkSession, log: sl.Log, url: str, folder: str
) -> None:
    spec = Path(folder, "spark-pipeline.yml")
    # A database that is not there yet, and a setting that only a new session takes.
    spec.write_text(
        f"{spec.read_text()}database: shop\nconfiguration:\n"
        "  spark.sql.warehouse.dir: " + os.path.join(folder, "spark", "warehouse") + "\n"
        "  spark.sql.shuffle.partitions: '2'\n"
    )
    order(log, range(200))
    _run_and_kill(log, url, folder)

    pipelines.run(folder, url=url)

    assert large(log) == [float(n) for n in range(100, 200)]
    assert len(table(spark, folder, "shop.db/orders")) == 200

    order(log, range(200, 250))
    report = pipelines.run(folder, url=url)

    assert any("COMPLETED" in event for event in report.events)
    assert large(log) == [float(n) for n in range(100, 250)]
    assert sorted(row["amount"] for row in table(spark, folder, "shop.db/orders")) == [*range(250)]
    spent = {row["key"]: row["orders"] for row in table(spark, folder, "shop.db/spent")}
    assert spent == {f"c-{n}": 50 for n in range(5)}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_spark")
def test_a_dry_run_checks_and_runs_nothing(log: sl.Log, url: str, folder: str) -> None:
    order(log, range(200))

    pipelines.run(folder, url=url, dry_run=True)

    assert large(log) == []
    definitions = Path(folder, "transformations", "orders.py")
    definitions.write_text(definitions.read_text().replace('table("orders")', 'table("nothing")'))
    with pytest.raises(UnavailableError) as caught:
        pipelines.run(folder, url=url, dry_run=True)
    assert "nothing" in str(caught.value.fields["reason"])


NAMED_SINK = """
dp.create_sink("named", "strandline", {"topic": "named", "txnAppId": "large-orders"})


@dp.append_flow(target="named")
def name_large_orders() -> DataFrame:
    large = spark.readStream.table("orders").where("amount >= 100")
    payload = f.to_json(f.struct("amount")).alias("payload")
    return large.select(f.lit("order.large").alias("kind"), "key", payload)
"""


@pytest.mark.heavy
def test_a_full_refresh_writes_to_a_topic_once_more_unless_its_writes_have_a_name(
    spark: SparkSession, log: sl.Log, url: str, folder: str
) -> None:
    log.create_topic("named")
    with Path(folder, "transformations", "orders.py").open("a") as definitions:
        definitions.write(NAMED_SINK)
    order(log, range(200))
    pipelines.run(folder, url=url)
    once = [float(n) for n in range(100, 200)]
    assert large(log) == amounts(log, "named") == once

    pipelines.run(folder, url=url, full_refresh=True)

    assert len(table(spark, folder, "orders")) == 200, "tables are made again"
    assert large(log) == sorted(once * 2), "a topic keeps what it has"
    assert amounts(log, "named") == once, "the same rows under the same name are a repeat"

    order(log, range(200, 210))
    with pytest.raises(UnavailableError) as caught:
        pipelines.run(folder, url=url, full_refresh=True)
    assert "ConflictError" in str(caught.value.fields["reason"])
    assert amounts(log, "named") == once, "other rows under the same name are refused"


def _run_and_kill(log: sl.Log, url: str, folder: str) -> None:
    """Run until rows reach the topic, and kill the run with everything that it has started."""
    running = subprocess.Popen(
        [sys.executable, "-c", _RUN, folder, url], cwd=ROOT, start_new_session=True
    )
    try:
        while running.poll() is None and not large(log):
            with suppress(subprocess.TimeoutExpired):
                running.wait(0.05)
        assert running.poll() is None, "it was killed before it ended"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


_RUN = """
import sys
from strandline.spark import pipelines
pipelines.run(sys.argv[1], url=sys.argv[2])
"""


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_a_pipeline_over_a_served_log_says_what_its_sink_lacks_and_then_runs(
    log: sl.Log, tmp_path: Path, folder: str
) -> None:
    order(log, range(150))
    definitions = Path(folder, "transformations", "orders.py")
    with ServerProcess(str(tmp_path / "log")) as server:
        with pytest.raises(UnavailableError) as caught:
            pipelines.run(folder, url=server.url)
        assert "stagingLocation" in str(caught.value.fields["reason"]).partition("; ")[0]

        sink = '{"topic": "large_orders"}'
        staged = f'{{"topic": "large_orders", "stagingLocation": "{tmp_path.as_uri()}/staging"}}'
        assert sink in definitions.read_text()
        definitions.write_text(definitions.read_text().replace(sink, staged))
        pipelines.run(folder, url=server.url)

    assert large(log) == [float(n) for n in range(100, 150)]
