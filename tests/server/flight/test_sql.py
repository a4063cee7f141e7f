"""SQL over Flight, by the official ADBC driver."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from strandline.log import Log
from strandline.server.settings import ServerSettings
from strandline.values import Event
from tests.logs import memory_log
from tests.server.flight.flights import FlightServed

adbc = pytest.importorskip("adbc_driver_flightsql.dbapi", reason="the ADBC driver is not installed")

pytestmark = pytest.mark.slow

#: Larger than what is sent ahead, and so not over before it is read.
MUCH = "select range || 'TEXT' from range(200000)".replace("TEXT", "x" * 1000)


def connected(served: FlightServed, token: str | None = None) -> Any:
    headers = {} if token is None else {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    return adbc.connect(served.flight_url, autocommit=True, db_kwargs=headers)


@pytest.fixture(scope="module")
def shared_log() -> Iterator[Log]:
    log = memory_log()
    log.create_topic("orders", partitions=2)
    log.append_many(
        "orders",
        [
            Event("placed" if n % 4 else "cancelled", {"total": n}, key=f"c-{n % 7}")
            for n in range(1000)
        ],
    )
    log.create_topic("Mixed-Case")
    log.append("Mixed-Case", Event("a"))
    log.scope().register(
        "typed", pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    )
    log.append(log.create_topic("orders", tenant="rival"), Event("secret", "of a rival"))
    yield log
    log.close()


@pytest.fixture
def cursor(served: FlightServed) -> Iterator[Any]:
    with connected(served) as connection, connection.cursor() as cursor:
        yield cursor


def answer(cursor: Any, sql: str, parameters: Any = None) -> list[Any]:
    cursor.execute(sql, parameters)
    found: list[Any] = cursor.fetchall()
    return found


def test_a_query_groups_the_rows_of_a_topic(cursor: Any) -> None:
    cursor.execute(
        "select kind, count(*) as n, sum((payload->>'total')::int) as total "
        "from orders group by kind order by kind"
    )
    found = cursor.fetch_arrow_table()

    assert found.to_pydict() == {
        "kind": ["cancelled", "placed"],
        "n": [250, 750],
        "total": [124500, 375000],
    }


def test_parameters_are_bound(cursor: Any) -> None:
    sql = "select count(*) from orders where kind = ? and _offset < ?"

    assert answer(cursor, sql, ("cancelled", 10_000)) == [(250,)]
    assert answer(cursor, sql, ("placed", 0)) == [(0,)]


def test_statements_of_many_forms_are_answered(cursor: Any) -> None:
    assert answer(cursor, 'select kind from "Mixed-Case"') == [("a",)]
    assert answer(cursor, 'select kind from "mixed-case"') == [("a",)]
    assert answer(cursor, "select count(*) from strandline.main.orders; -- all") == [(1000,)]
    assert answer(cursor, "with o as (from orders limit 3) select count(*) from o") == [(3,)]
    assert answer(cursor, "select 1 as a, 2 as a") == [(1, 2)]
    assert answer(
        cursor, "select count(*) from orders a join orders b using (_partition, _offset)"
    ) == [(1000,)]
    assert answer(cursor, "select count(*) from typed") == [(0,)]
    assert len(answer(cursor, "from orders")) == 1000


def test_the_driver_finds_the_tables_and_their_columns(served: FlightServed) -> None:
    with connected(served) as connection:
        (catalog,) = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        columns = connection.adbc_get_table_schema("typed")
        filtered = connection.adbc_get_objects(depth="tables", table_name_filter="ord%")
        (only,) = filtered.read_all().to_pylist()
        about = connection.adbc_get_info()
        types = connection.adbc_get_table_types()

    def names(found: Any) -> list[str]:
        return [each["table_name"] for each in found["catalog_db_schemas"][0]["db_schema_tables"]]

    assert (catalog["catalog_name"], names(catalog)) == (
        "strandline",
        ["Mixed-Case", "orders", "typed"],
    )
    assert names(only) == ["orders"]
    assert columns.names[-2:] == ["id", "at"]
    assert about["vendor_name"] == "Strandline"
    assert types == ["TABLE"]


def test_the_driver_appends_rows(served: FlightServed, shared_log: Log) -> None:
    shared_log.create_topic("loaded")
    rows = pa.table({"kind": ["a", "b"], "payload": ["1", "2"]})
    with connected(served) as connection, connection.cursor() as cursor:
        assert cursor.adbc_ingest("loaded", rows, mode="append") == 2

    assert [each.kind for each in shared_log.read("loaded", 0, 0)] == ["a", "b"]


def test_errors_have_our_words(cursor: Any) -> None:
    bad = {
        "select * from orderz": "there is no such topic.*near=\\['orders'\\]",
        "select nothing from orders": "nothing.*not found",
        "selec 1": "syntax error",
        "insert into orders values (1)": "a statement is one SELECT over topics",
        "select 'a'::int": "Could not convert",
    }
    for sql, words in bad.items():
        with pytest.raises(adbc.Error, match=words):
            answer(cursor, sql)


def test_a_wrong_token_is_refused(serve_flight: Callable[..., FlightServed], log: Log) -> None:
    log.append(log.create_topic("orders", tenant="acme"), Event("a"))
    log.create_topic("hidden")
    served = serve_flight(log)
    token = served.token("read", tenant="acme")

    with connected(served, token) as connection, connection.cursor() as cursor:
        assert answer(cursor, "select kind from orders") == [("a",)]
        with pytest.raises(adbc.Error, match="there is no such topic"):
            answer(cursor, "select * from hidden")
    with (
        pytest.raises(adbc.Error, match="unknown, revoked or expired"),
        connected(served, token + "0") as connection,
        connection.cursor() as cursor,
    ):
        answer(cursor, "select kind from orders")


ATTACKS = [
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/passwd')",
    "select * from '/etc/passwd'",
    "select * from 'https://example.org/a.parquet'",
    "select * from glob('/*')",
    "select * from parquet_metadata('/etc/passwd')",
    "select * from sniff_csv('/etc/passwd')",
    "copy orders to '/tmp/stolen.csv'",
    "copy (select 1) to '/tmp/stolen.csv'",
    "attach '/tmp/stolen.db' as other",
    "install httpfs",
    "load httpfs",
    "pragma database_list",
    "pragma enable_external_access=true",
    "set enable_external_access = true",
    "set memory_limit = '100GB'",
    "reset lock_configuration",
    "create table copied as select * from orders",
    "create view looked as select 1",
    "create secret s (type s3)",
    "drop view orders",
    "export database '/tmp/stolen'",
    "call pragma_version()",
    "explain select 1",
    "use temp",
    "select 1; select 2",
    "select 1; drop view orders",
    "select * from duckdb_settings()",
    "select * from duckdb_secrets()",
    "select * from duckdb_extensions()",
    "select * from duckdb_views",
    "select * from pg_catalog.pg_class",
    "select * from information_schema.tables",
    "select * from temp.main.orders",
    "select * from (show tables)",
    "with duckdb_tables as (select 1) select * from duckdb_tables",
    "select * from query('select 1')",
    "select * from query_table('orders')",
    "select * from json_execute_serialized_sql('{}')",
    "select * from arrow_scan(1, 2, 3)",
    "select * from arrow_scan_dumb(1, 2, 3)",
    "select * from log",
    "select * from self",
    'select * from "__strandline.tokens"',
    "select * from rival.orders",
    'select * from "rival/orders"',
    "select getenv('HOME')",
    "",
    "   ;",
    "-- nothing",
]


@pytest.mark.parametrize("sql", ATTACKS, ids=range(len(ATTACKS)))
def test_a_statement_reaches_nothing_but_topics(sql: str, cursor: Any) -> None:
    with pytest.raises(adbc.Error) as caught:
        answer(cursor, sql)

    said = str(caught.value)
    assert "the server has failed" not in said
    assert not any(each in said for each in ("root:", "of a rival", "Traceback", "/.duckdb"))


def test_a_statement_that_nests_deeply_ends_no_server(cursor: Any) -> None:
    depth = 15_000
    for sql in (
        "select " + "(" * depth + "1" + ")" * depth,
        "select " + "not " * (depth // 2) + "true",
        "select * from " + "(select * from " * 900 + "(select 1)" + ")" * 900,
    ):
        with contextlib.suppress(adbc.Error):
            answer(cursor, sql)
    with pytest.raises(adbc.Error, match="this statement is too long"):
        answer(cursor, "select " + "1 + " * depth + "1")

    assert answer(cursor, "select 1") == [(1,)]


def test_the_engine_itself_refuses_what_the_check_would_let_through(
    cursor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two walls: without the check of statements, DuckDB's configuration still holds."""
    monkeypatch.setattr("strandline.server.flight.sql_engine.tables_of", lambda *_: [])

    for sql in ATTACKS[:14]:
        if "pragma database_list" in sql:
            continue
        with pytest.raises(
            adbc.Error, match=r"disabled|locked|does not exist|Permission|syntax|Cannot"
        ):
            answer(cursor, sql)


def test_a_statement_that_takes_too_long_is_ended(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    served = serve_flight(log, ServerSettings(sql_timeout_s=0.3))
    with (
        connected(served) as connection,
        connection.cursor() as cursor,
        pytest.raises(adbc.Error, match="took longer than"),
    ):
        answer(cursor, "select count(*) from range(10000000) a, range(10000000) b")


def test_a_statement_that_takes_too_much_memory_is_ended(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    served = serve_flight(log, ServerSettings(sql_memory_bytes_max=16 * 1024 * 1024))
    with connected(served) as connection, connection.cursor() as cursor:
        with pytest.raises(adbc.Error, match="more memory than it may take"):
            answer(cursor, "select distinct range || 'x' from range(3000000)")
        assert answer(cursor, "select 1") == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        "select range(50000000)",
        "select length(repeat('x', 1000000000))",
        "select count(*) from (select unnest(generate_series(1, 100000000)))",
        "select lpad('x', 1000000000, 'y') from range(3)",
        "select * from range(length(REPEAT('x', 1000000000)))",
    ],
)
def test_a_function_that_makes_one_value_of_any_size_is_refused(
    served: FlightServed, sql: str
) -> None:
    with connected(served) as connection, connection.cursor() as cursor:
        with pytest.raises(adbc.Error, match="one value of any size"):
            answer(cursor, sql)
        assert answer(cursor, "select count(*) from range(5)") == [(5,)]


def test_a_token_has_no_more_than_half_of_the_statements(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    served = serve_flight(log, ServerSettings(sql_queries_max=3))
    with (
        connected(served) as one,
        connected(served) as other,
        one.cursor() as held,
        other.cursor() as cursor,
    ):
        held.execute(MUCH)
        with pytest.raises(adbc.Error, match="this token runs too many SQL statements"):
            answer(cursor, "select 1")
        held.fetch_arrow_table()


def test_only_so_many_statements_run_at_a_time(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    served = serve_flight(log, ServerSettings(sql_queries_max=1))
    with connected(served) as one, connected(served) as other:
        with one.cursor() as held, other.cursor() as cursor:
            held.execute(MUCH)
            with pytest.raises(adbc.Error, match="too many SQL statements"):
                answer(cursor, "select 1")
            held.fetch_arrow_table()
        with other.cursor() as cursor:
            assert answer(cursor, "select 1") == [(1,)]
