"""The session that the tests share, and the Pythons that one starts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import strandline
from strandline.spark.session import _pythons


def test_a_session_answers_in_utc_on_the_loopback_address(spark: SparkSession) -> None:
    assert spark.sql("SELECT current_timezone()").collect() == [("UTC",)]
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_python_workers_know_this_project(spark: SparkSession) -> None:
    def written() -> str:
        import strandline.values  # noqa: PLC0415 # In the worker.

        return strandline.values.__name__

    assert spark.sparkContext.parallelize([0]).map(lambda _: written()).collect() == [
        "strandline.values"
    ]


def test_a_python_of_spark_imports_what_is_installed_and_compiled(tmp_path: Path) -> None:
    home = tmp_path / "python" / "lib"
    own = tmp_path / "my own"
    places = [home / "pyspark.zip", home / "py4j-0.10.9.9-src.zip", own]
    given = _pythons("local[2]", {})

    done = subprocess.run(
        [given["PYSPARK_PYTHON"], "-c", "import os; print(os.environ['PYTHONPATH'])"],
        env={**os.environ, **given, "PYTHONPATH": os.pathsep.join(map(str, places))},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == str(own)


def test_a_python_or_a_spark_that_was_chosen_stays_chosen() -> None:
    assert _pythons("local[*]", {"PYSPARK_PYTHON": "mine"}) == {}
    assert _pythons("local[*]", {"SPARK_HOME": "/opt/spark"}) == {}
    assert _pythons("spark://host:7077", {}) == {}


@pytest.mark.slow
def test_a_session_has_the_format_where_a_path_has_a_space(tmp_path: Path) -> None:
    code = tmp_path / "my code"
    shutil.copytree(Path(strandline.__file__).parent, code / "strandline")
    program = """
import sys, strandline as sl
from strandline.spark import local_session
url = f"file:{sys.argv[1]}/events"
with sl.open(url) as log:
    log.create_topic("orders")
    log.append("orders", sl.Event("placed", {}))
frame = local_session(sys.argv[1]).read.format("strandline").option("subscribe", "orders")
print(sl.__file__, frame.load(url).count())
"""
    chosen = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "STRANDLINE_PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in chosen}

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**environment, "PYTHONPATH": str(code)},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == f"{code / 'strandline' / '__init__.py'} 1"
