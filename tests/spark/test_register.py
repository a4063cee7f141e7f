"""All topics of a log as views of a session, by one call."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.spark import register

pytestmark = pytest.mark.slow


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'log'}"


def counted(spark: SparkSession, query: str) -> int:
    (row,) = spark.sql(query).collect()
    found: int = row[0]
    return found


def test_each_topic_is_a_view_that_shows_what_it_held_then(spark: SparkSession, url: str) -> None:
    with sl.open(url) as log:
        log.create_topic("orders")
        log.create_topic("re.funds-1")
        log.create_topic("unknown", value_kind="batch")
        log.append_many("orders", [sl.Event("placed", {"n": n}, key="k") for n in range(5)])

        names = register(spark, log)

        assert names == ["orders", "re.funds-1"]
        assert counted(spark, "select count(*) from orders where _offset >= 2") == 3
        assert counted(spark, "select count(*) from `re.funds-1`") == 0
        log.append("orders", sl.Event("late"))
        assert counted(spark, "select count(*) from orders") == 5
        register(spark, log)
        assert counted(spark, "select count(*) from orders") == 6
        listed = {row.tableName for row in spark.sql("show tables").collect()}
        assert {"orders", "re.funds-1"} <= listed


def test_views_of_the_past_end_where_the_call_says(spark: SparkSession, url: str) -> None:
    with sl.open(url) as log:
        log.create_topic("orders")
        log.append_many("orders", [sl.Event("placed", {"n": n}) for n in range(5)])

        register(spark, url, endingOffsets='{"orders": {"0": 2}}')
        assert counted(spark, "select count(*) from orders") == 2
        register(spark, url, endingTimestamp="1")
        assert counted(spark, "select count(*) from orders") == 0


def test_a_tenant_has_its_own_topics(spark: SparkSession, url: str) -> None:
    with sl.open(url) as log:
        log.create_topic("orders")
        own = log.create_topic("orders", tenant="acme")
        log.append(own, sl.Event("placed"))

        register(spark, url, tenant="acme")

        assert counted(spark, "select count(*) from orders") == 1


def test_a_log_in_memory_is_refused(spark: SparkSession) -> None:
    with sl.open("memory:") as log, pytest.raises(sl.InvalidError, match="belongs to one process"):
        register(spark, log)


def test_rows_are_inserted_into_the_topic_of_a_view(spark: SparkSession, url: str) -> None:
    with sl.open(url) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("first"))
        register(spark, log)
        spark.sql(
            "CREATE OR REPLACE TEMPORARY VIEW incoming USING strandline "
            f"OPTIONS (path '{url}', subscribe 'orders')"
        )

        spark.sql("""INSERT INTO incoming SELECT 'placed', 'k', '{"n":1}', map('a', '1'), NULL""")

        found = list(log.read("orders", 0, 0))
        assert [each.kind for each in found] == ["first", "placed"]
        assert (found[1].key, found[1].payload, found[1].headers) == ("k", {"n": 1}, {"a": "1"})


def test_a_table_of_the_catalogue_shows_what_its_topic_holds_and_takes_rows(
    spark: SparkSession, url: str
) -> None:
    with sl.open(url) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("first"))
        spark.sql(f"CREATE TABLE kept USING strandline OPTIONS (path '{url}', subscribe 'orders')")
        try:
            assert counted(spark, "SELECT count(*) FROM kept") == 1
            spark.sql("""INSERT INTO kept (kind, payload) VALUES ('placed', '{"n":1}')""")
            assert counted(spark, "SELECT count(*) FROM kept WHERE kind = 'placed'") == 1
            assert [each.kind for each in log.read("orders", 0, 0)] == ["first", "placed"]
            past = """SELECT count(*) FROM kept WITH (endingOffsets = '{"orders": {"0": 1}}')"""
            assert counted(spark, past) == 1
            assert "kept" in {row.tableName for row in spark.sql("SHOW TABLES").collect()}
            with pytest.raises(Exception, match="only ever appended"):
                spark.sql("INSERT OVERWRITE kept SELECT * FROM kept")
        finally:
            spark.sql("DROP TABLE kept")
        assert [each.kind for each in log.read("orders", 0, 0)] == ["first", "placed"]


def test_a_table_with_an_option_for_reading_takes_no_rows_and_names_the_option(
    spark: SparkSession, url: str
) -> None:
    with sl.open(url) as log:
        log.create_topic("orders")
    spark.sql(
        "CREATE TABLE detailed USING strandline "
        f"OPTIONS (path '{url}', subscribe 'orders', includeMetadata 'true')"
    )
    try:
        with pytest.raises(Exception, match=r"for reading alone.*option='includeMetadata'"):
            spark.sql("INSERT INTO detailed (kind, key) VALUES ('placed', 'k')")
        assert counted(spark, "SELECT count(*) FROM detailed") == 0
    finally:
        spark.sql("DROP TABLE detailed")


def test_a_table_with_columns_of_its_own_is_refused_with_what_to_do(
    spark: SparkSession, url: str
) -> None:
    with sl.open(url) as log:
        log.create_topic("orders")
    spark.sql(
        "CREATE TABLE bare (kind STRING) USING strandline "
        f"OPTIONS (path '{url}', subscribe 'orders')"
    )
    try:
        with pytest.raises(Exception, match="make it without columns"):
            spark.sql("SELECT * FROM bare").collect()
    finally:
        spark.sql("DROP TABLE bare")


def test_views_of_a_moment_show_what_was_appended_before(spark: SparkSession, url: str) -> None:
    with sl.open(url) as log:
        log.create_topic("orders", partitions=2)
        log.append_many("orders", [sl.Event("placed", {"n": n}, key=f"{n}") for n in range(5)])
        stamp = max(each.timestamp_us for p in range(2) for each in log.read("orders", p, 0))
        moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=stamp)

        register(spark, url, at=moment + timedelta(days=1))
        assert counted(spark, "select count(*) from orders") == 5
        register(spark, url, at=moment - timedelta(days=1))
        assert counted(spark, "select count(*) from orders") == 0
        with pytest.raises(sl.InvalidError, match="give one"):
            register(spark, url, at=moment, endingTimestamp="1")
        with pytest.raises(sl.InvalidError, match="time zone"):
            register(spark, url, at=datetime(2026, 1, 1))  # What is refused.
