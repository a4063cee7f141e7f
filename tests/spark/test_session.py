"""The session that the tests share."""

from pyspark.sql import SparkSession


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
