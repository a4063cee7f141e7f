"""Appending and reading: records read equal the values appended, in every form of value."""

import base64
import subprocess
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import strandline as sl
from tests.cli.program import environment, ran, run
from tests.cli.test_examples import dead_letter_one

FORMATS = {
    "rows.csv": "csv",
    "rows.parquet": "parquet",
    "rows.arrow": "arrow",
    "rows.arrows": "arrow",
}


def save(table: pa.Table, path: Path) -> None:
    match path.suffix:
        case ".csv":
            csv.write_csv(table, path)
        case ".parquet":
            parquet.write_table(table, path)
        case ".arrow":
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
        case _:
            with pa.ipc.new_stream(path, table.schema) as file:
                file.write_table(table)


def payloads(topic: str = "orders") -> list[object]:
    return [line["payload"] for line in ran("read", topic, "--json").lines]


def test_payloads_as_arguments_become_events_with_what_the_options_say() -> None:
    ran("create", "orders", "--partitions", "2")

    done = ran(
        *("append", "orders", '{"id": 17}', "--kind", "order.created", "--key", "c-9"),
        *("--header", "source=web", "--header", "a=b=c", "--partition", "1"),
        *("--occurred-at", "2026-03-01T12:00:00Z", "--durability", "durable", "--json"),
    )

    assert done.document == {
        "topic": "orders",
        "durability": "durable",
        "records": 1,
        "repeats": 0,
        "partitions": [{"partition": 1, "start": 0, "end": 1}],
    }
    [line] = ran("read", "orders", "--json").lines
    timestamp = datetime.fromisoformat(line.pop("timestamp"))
    assert timestamp.tzinfo == UTC
    assert line == {
        "topic": "orders",
        "partition": 1,
        "offset": 0,
        "key": "c-9",
        "tenant": None,
        "kind": "order.created",
        "payload": {"id": 17},
        "headers": {"source": "web", "a": "b=c"},
        "occurred_at": "2026-03-01T12:00:00.000000Z",
    }


def test_lines_on_standard_input_are_whole_events_or_payloads() -> None:
    ran("create", "orders")
    events = '{"kind": "a", "payload": 1, "key": "k", "headers": {"h": "v"}}\n\n{"kind": "b"}\n'

    ran("append", "orders", stdin=events)
    ran("append", "orders", "--kind", "c", "--key-field", "id", stdin='{"id": 7}\n{"id": null}\n')

    lines = ran("read", "orders", "--json").lines
    assert [line["kind"] for line in lines] == ["a", "b", "c", "c"]
    assert [line["key"] for line in lines] == ["k", None, "7", None]
    assert [line["payload"] for line in lines] == [1, None, {"id": 7}, {"id": None}]
    assert lines[0]["headers"] == {"h": "v"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow", "rows.arrows"])
def test_rows_of_a_file_become_payloads_and_batches(name: str, folder: Path) -> None:
    save(pa.table({"id": [1, 2, 3], "name": ["a", "b", None]}), folder / name)
    ran("create", "orders")
    ran("create", "tables", "--kind", "batch")

    ran("append", "orders", "--from", name, "--kind", "row", "--key-field", "id")
    ran("append", "tables", "--from", name)

    # Cells of CSV are text.
    one, two, three = ("1", "2", "3") if name.endswith("csv") else (1, 2, 3)
    expected = [{"id": one, "name": "a"}, {"id": two, "name": "b"}, {"id": three, "name": None}]
    assert payloads() == expected
    [record] = ran("read", "tables", "--json").lines
    assert record["rows"] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow", "rows.arrows"])
def test_a_table_may_come_through_a_pipe(name: str, folder: Path) -> None:
    save(pa.table({"id": ["1", "2", "3"], "name": ["a", "b", "c"]}), folder / name)
    ran("create", "orders")

    line = f"cat {name} | strandline append orders --kind row --format {FORMATS[name]}"
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", line],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert payloads() == [{"id": n, "name": c} for n, c in (("1", "a"), ("2", "b"), ("3", "c"))]


def test_every_type_of_arrow_has_a_form_in_json(folder: Path) -> None:
    table = pa.table(
        {
            "second": pa.array([2**40], pa.timestamp("s")),
            "finest": pa.array([1], pa.timestamp("ns", "UTC")),
            "days": pa.array([2**30], pa.date32()),
            "long": pa.array([2**60], pa.duration("s")),
            "inner": pa.array([{"at": [1]}], pa.struct([("at", pa.list_(pa.timestamp("ns")))])),
            "money": pa.array([Decimal("1.20")]),
            "raw": [b"\x00\xff"],
            "ratio": [float("nan")],
        }
    )
    save(table, folder / "rows.arrows")
    ran("create", "orders")
    ran("create", "tables", "--kind", "batch")

    ran("append", "orders", "--from", "rows.arrows", "--kind", "row")
    ran("append", "tables", "--from", "rows.arrows")

    [row] = payloads()
    [record] = ran("read", "tables", "--json").lines
    assert record["rows"] == [row]
    assert row == {
        "second": "<value out of range: 1099511627776>",
        "finest": "1970-01-01 00:00:00.000000001Z",
        "days": "<value out of range: 1073741824>",
        "long": 2**60,
        "inner": {"at": ["1970-01-01 00:00:00.000000001"]},
        "money": "1.20",
        "raw": "AP8=",
        "ratio": "nan",
    }
    assert "  1 row: {" in ran("read", "tables").stdout


def test_an_argument_without_a_kind_option_is_a_whole_event(folder: Path) -> None:
    ran("create", "orders")

    ran("append", "orders", '{"kind": "a", "payload": 1, "key": "k"}', '{"kind": "b"}', "--key=d")

    lines = ran("read", "orders", "--json").lines
    assert [(each["kind"], each["payload"], each["key"]) for each in lines] == [
        ("a", 1, "k"),
        ("b", None, "d"),
    ]


@pytest.mark.parametrize("more", [("--kind", "a"), ()])
def test_an_unpaired_surrogate_in_an_argument_is_named(folder: Path, more: tuple[str, ...]) -> None:
    ran("create", "orders")
    text = r'"\ud800"' if more else r'{"kind":"a","payload":"\ud800"}'

    done = run("append", "orders", text, *more)

    assert (done.code, "unpaired surrogate" in " ".join(done.stderr.split())) == (2, True)


def test_a_typed_topic_takes_rows_that_fit_its_schema_and_no_others(folder: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("x", pa.float32())])
    with sl.open("file:.strandline/events") as log:
        log.scope().register("points", schema)
    (folder / "good.csv").write_text("x,id\n1.5,7\n,8\n")
    (folder / "large.csv").write_text("x,id\n1.5,5000000000\n")
    (folder / "other.csv").write_text("id,y\n1,2\n")

    ran("append", "points", "--from", "good.csv")

    assert "do not fit" in run("append", "points", "--from", "large.csv").stderr
    assert "y: int64 is not in the topic" in run("append", "points", "--from", "other.csv").stderr
    with sl.open("file:.strandline/events", mode="read") as log:
        [delivered] = log.scope().replay("points", sl.EARLIEST)
    assert isinstance(delivered, sl.DeliveredBatch)
    assert delivered.batch.schema == schema
    assert delivered.batch.to_pylist() == [{"id": 7, "x": 1.5}, {"id": 8, "x": None}]


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        (pa.timestamp("us", "UTC"), "2026-01-01T12:00:00Z", "2026-01-01T12:00:00"),
        (pa.timestamp("us"), "2026-01-01T12:00:00", "2026-01-01T12:00:00+01:00"),
        (pa.timestamp("us", "UTC"), "2026-01-01T12:00:00Z", "2026-01-01"),
    ],
)
def test_a_typed_topic_has_no_time_zone_assumed_or_dropped(
    folder: Path, wanted: pa.DataType, good: str, bad: str
) -> None:
    with sl.open("file:.strandline/events") as log:
        log.scope().register("times", pa.schema([("at", wanted)]))
    (folder / "good.csv").write_text(f"at\n{good}\n")
    (folder / "bad.csv").write_text(f"at\n{bad}\n")

    ran("append", "times", "--from", "good.csv")
    refused = run("append", "times", "--from", "bad.csv")

    assert "time zone" in refused.stderr
    assert "'at'" in refused.stderr
    assert len(ran("read", "times", "--json").lines) == 1


def test_a_typed_topic_drops_no_field_within_a_column(folder: Path) -> None:
    schema = pa.schema([("st", pa.struct([("a", pa.int64())]))])
    with sl.open("file:.strandline/events") as log:
        log.scope().register("nested", schema)
    parquet.write_table(pa.table({"st": [{"a": 1, "b": 2}]}), folder / "more.parquet")

    assert "'st.b'" in run("append", "nested", "--from", "more.parquet").stderr


def test_columns_named_as_the_parts_of_an_event_become_events(folder: Path) -> None:
    table = pa.table(
        {
            "kind": ["a"],
            "payload": ['{"n":1}'],
            "key": ["k"],
            "headers": ['{"h":"v"}'],
            "occurred_at": pa.array([datetime(2026, 3, 1, 12)], pa.timestamp("ms", "UTC")),
        }
    )
    parquet.write_table(table, folder / "events.parquet")
    ran("create", "orders")

    ran("append", "orders", "--from", "events.parquet")

    [line] = ran("read", "orders", "--json").lines
    assert (line["kind"], line["payload"], line["key"]) == ("a", {"n": 1}, "k")
    assert line["headers"] == {"h": "v"}
    assert line["occurred_at"] == "2026-03-01T12:00:00.000000Z"


def test_bytes_are_text_as_arguments_and_base64_in_lines() -> None:
    ran("create", "frames", "--kind", "bytes")
    stored = base64.b64encode(b"\x00\xff").decode()

    ran("append", "frames", "plain", "--key", "k")
    ran("append", "frames", stdin=f'{{"value": "{stored}"}}\n')

    lines = ran("read", "frames", "--json").lines
    assert [base64.b64decode(line["value"]) for line in lines] == [b"plain", b"\x00\xff"]
    assert "\\x00\\xff" in ran("read", "frames").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (("append", "orders", "{}"), None, "without --kind an argument is a whole event"),
        (("append", "orders", '{"kind": "a", "foo": 1}'), None, "unknown field `foo`"),
        (("append", "orders", "{broken", "--kind", "a"), None, "argument=1"),
        (("append", "orders", "text", "--kind", "a"), None, """'"like this"'"""),
        (("append", "orders"), "{}\n", "line=1"),
        (("append", "orders"), '{"kind": "a", "paylaod": 1}\n', "paylaod"),
        (("append", "orders", "--from", "nowhere.csv", "--kind", "a"), None, "nowhere.csv"),
        (("append", "orders", "--from", "rows.xlsx", "--kind", "a"), None, "--format"),
        (("append", "order", "{}", "--kind", "a"), None, "near=['orders']"),
        (("append", "orders", "{}", "--kind", "a", "--header", "x"), None, "NAME=VALUE"),
        (
            ("append", "orders", "1", "--kind", "a", "--key-field", "id", "--from", "-"),
            None,
            "either",
        ),
        (("append", "orders", "--kind", "a", "--key-field", "id"), "1\n", "field='id'"),
        (("append", "orders", "1", "--kind", "a", "--durability", "maybe"), None, "maybe"),
        (("read", "orders", "--from", "yesterday"), None, "yesterday"),
        (("read", "orders", "--partition", "7"), None, "partition=7"),
        (("create", "orders", "--retention-age", "7 years"), None, "7d"),
        (("create", "orders", "--limit-bytes", "much"), None, "64MiB"),
        (("trim", "orders"), None, "--before"),
        (("topics", "--url", "memory"), None, "file:PATH"),
        (("topics", "--url", "file:nowhere"), None, "strandline create"),
        (("topics", "--url", "sqlite:nowhere"), None, "strandline create"),
    ],
)
def test_a_call_that_cannot_succeed_says_why_and_exits_with_2(
    arguments: tuple[str, ...], stdin: str | None, told: str, orders: str
) -> None:
    done = run(*arguments, stdin=stdin)

    assert done.code == 2
    assert told in done.stderr
    assert not done.stdout
    assert len(payloads()) == 5, "nothing was stored"


def test_nothing_is_created_by_a_command_that_only_looks(folder: Path) -> None:
    for arguments in (
        ("read", "orders"),
        ("topics",),
        ("append", "orders", "1", "--kind", "a"),
        ("ack", "orders", "mailer", "--to", "0"),
        ("trim", "orders", "--before", "1"),
        ("verify",),
    ):
        assert run(*arguments).code == 2

    assert list(folder.iterdir()) == []


def test_a_value_appended_with_a_key_is_appended_once() -> None:
    ran("create", "orders")
    once = ("append", "orders", "1", "--kind", "a", "--idempotency-key", "x", "--json")

    assert ran(*once).document["repeats"] == 0
    assert ran(*once).document["repeats"] == 1
    assert payloads() == [1]


@pytest.mark.slow
def test_reading_can_begin_anywhere_and_ends_where_the_topic_does(orders: str) -> None:
    assert len(payloads()) == 5
    assert [each["offset"] for each in ran("read", orders, "--from", "3", "--json").lines] == [3, 4]
    assert len(ran("read", orders, "--limit", "2", "--json").lines) == 2
    assert ran("read", orders, "--from", "latest", "--json").lines == []
    assert len(ran("read", orders, "--from", "1h", "--json").lines) == 5
    assert ran("read", orders, "--from", "2999-01-01", "--json").lines == []
    assert len(ran("read", orders, "--durable-only", "--json").lines) == 0
    ran("append", orders, "9", "--kind", "a", "--durability", "durable")
    assert len(ran("read", orders, "--durable-only", "--json").lines) == 6


@pytest.mark.slow
def test_partitions_are_read_in_the_order_of_time() -> None:
    ran("create", "orders", "--partitions", "3")
    for number in (2, 0, 1, 0, 2):
        ran("append", "orders", str(number), "--kind", "a", "--partition", str(number))

    assert payloads() == [2, 0, 1, 0, 2]
    assert [each["partition"] for each in ran("tail", "orders", "-n", "2", "--json").lines] == [
        0,
        2,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["read", "tail"])
def test_an_offset_is_of_one_partition(command: str) -> None:
    ran("create", "orders", "--partitions", "2")
    ran("append", "orders", "1", "2", "3", "--kind", "a", "--partition", "0")

    refused = run(command, "orders", "--from", "2")
    (shown,) = ran(command, "orders", "--from", "2", "--partition", "0", "--json").lines

    assert refused.code == 2
    assert "--partition" in refused.stderr
    assert "partition=1 end=0" in refused.stderr
    assert shown["offset"] == 2
    assert len(ran(command, "orders", "--from", "0", "--json").lines) == 3


@pytest.mark.slow
def test_the_tail_is_the_newest_records(orders: str) -> None:
    assert [each["offset"] for each in ran("tail", orders, "-n", "2", "--json").lines] == [3, 4]
    assert ran("tail", orders, "-n", "0", "--json").lines == []
    assert len(ran("tail", orders, "--json").lines) == 5
    assert [each["offset"] for each in ran("tail", orders, "--from", "1", "--json").lines] == [
        *(1, 2, 3, 4)
    ]


@pytest.mark.slow
def test_topics_of_a_tenant_and_records_of_one() -> None:
    ran("create", "orders", "--tenant", "acme")
    ran("create", "shared")
    ran("append", "orders", "1", "--kind", "a", "--tenant", "acme")
    ran("append", "shared", "2", "--kind", "a", "--record-tenant", "acme")

    assert run("read", "orders").code == 2
    [theirs] = ran("read", "orders", "--tenant", "acme", "--json").lines
    [one] = ran("read", "shared", "--json").lines
    assert theirs["tenant"] == one["tenant"] == "acme"
    names = [each["name"] for each in ran("topics", "--json").document["topics"]]
    assert names == ["shared"]


@pytest.mark.slow
def test_control_characters_never_reach_the_terminal(orders: str) -> None:
    with sl.open("file:.strandline/events") as log:
        evil = "\x1b]0;title\x07\x9b31m\u202eright\u2028\x7f"
        log.append(orders, sl.Event("evil", evil, key=evil, headers={"h": evil}))
        log.create_topic("raw", value_kind=sl.ValueKind.BYTES)
        log.append("raw", evil.encode())
        log.ack(orders, "consumer \N{RIGHT-TO-LEFT MARK}x", 0, 1)

    for arguments in (
        ("tail", orders, "-n", "1"),
        ("tail", orders, "-n", "1", "--json"),
        ("read", "raw"),
        ("read", "raw", "--json"),
        ("consumers", orders),
        ("consumers", orders, "--json"),
    ):
        shown = ran(*arguments).stdout
        assert all(each == "\n" or each.isprintable() for each in shown), arguments
    [line] = ran("tail", orders, "-n", "1", "--json").lines
    assert line["payload"] == line["key"] == evil


@pytest.mark.slow
def test_only_what_matches_is_shown(orders: str) -> None:
    def offsets(*arguments: str) -> list[int]:
        return [each["offset"] for each in ran(*arguments, "--json").lines]

    paid = ("--where", "kind = 'order.paid'")
    assert offsets("read", orders, *paid) == [3, 4]
    assert offsets("read", orders, *paid, "--limit", "1") == [3]
    assert offsets("read", orders, "--where", "key = 'c-7'") == [0]
    assert offsets("read", orders, "--where", "key = 'none'") == []
    assert offsets("tail", orders, "-n", "1", "--where", "kind = 'order.created'") == [2]
    assert offsets("tail", orders, "--from", "4", *paid) == [4]
    wrong = run("read", orders, "--where", "total > 3")
    assert (wrong.code, wrong.stdout) == (2, "")
    assert "total" in wrong.stderr


def test_rows_of_batches_that_match_are_shown(folder: Path) -> None:
    parquet.write_table(pa.table({"id": [1, 2, 3]}), folder / "rows.parquet")
    ran("create", "tables", "--kind", "batch")
    ran("append", "tables", "--from", "rows.parquet")

    [record] = ran("read", "tables", "--where", "id >= 2", "--json").lines

    assert record["rows"] == [{"id": 2}, {"id": 3}]


@pytest.mark.slow
def test_dead_letters_are_listed_and_redriven_once(orders: str) -> None:
    dead_letter_one(orders)

    [letter] = ran("dead-letters", "list", orders, "--json").document["dead_letters"]
    assert (letter["consumer"], letter["reason"]) == ("billing", "no such customer")
    assert (letter["partition"], letter["record_offset"], letter["headers"]) == (0, 0, {})
    assert not letter["is_redriven"]
    assert (
        ran("dead-letters", "list", orders, "--consumer", "other", "--json").document[
            "dead_letters"
        ]
        == []
    )

    redrive = ("dead-letters", "redrive", orders, "--json")
    assert ran(*redrive, "--offset", "7").document["dead_letters"] == []
    assert len(ran(*redrive).document["dead_letters"]) == 1
    assert ran(*redrive).document["dead_letters"] == [], "each is redriven once"
    assert ran("dead-letters", "list", orders, "--json").document["dead_letters"][0]["is_redriven"]
    assert len(payloads(orders)) == 5, "readers of the topic see nothing of it"


def test_an_event_may_be_appended_for_later() -> None:
    ran("create", "orders")

    ran("append", "orders", "1", "--kind", "a", "--deliver-at", "2099-12-24T18:00:00+01:00")
    ran("append", "orders", "2", "--kind", "a", "--deliver-at", "15m")

    first, second = ran("read", "orders", "--json").lines
    assert first["headers"] == {"strandline.deliver_at": "2099-12-24T17:00:00.000000Z"}
    at = datetime.fromisoformat(second["headers"]["strandline.deliver_at"])
    assert at > datetime.fromisoformat(second["timestamp"])
    for text in ("tomorrow", "", "99999999w", "15"):
        assert run("append", "orders", "3", "--kind", "a", "--deliver-at", text).code == 2


@pytest.mark.parametrize("line", ["read orders --partition 9", "tail orders --partition 9"])
def test_a_partition_that_is_not_there_is_answered_with_those_that_are(line: str) -> None:
    ran("create", "orders", "--partitions", "3")

    done = run(*line.split())

    assert done.code == 2
    assert "its partitions are 0 to 2" in done.stderr
