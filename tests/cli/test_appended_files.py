"""Files that are appended: what CSV and a dash mean, and errors in the middle of a file."""

import base64
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import strandline as sl
from tests.cli.program import ran, run
from tests.cli.test_records import payloads, save


def test_cells_of_csv_are_text_in_events(folder: Path) -> None:
    (folder / "rows.csv").write_text(
        'id,zip,big,ratio,flag,none,empty,"two\nlines"\n'
        '1,01234,12345678901234567890,1.50,true,,"","a\nb"\n'
        "2,00501,NULL,nan,NA,,,c\n"
    )
    ran("create", "orders")

    ran("append", "orders", "--from", "rows.csv", "--kind", "row", "--key-field", "zip")

    first, second = ran("read", "orders", "--json").lines
    assert [first["key"], second["key"]] == ["01234", "00501"]
    assert first["payload"] == {
        "id": "1",
        "zip": "01234",
        "big": "12345678901234567890",
        "ratio": "1.50",
        "flag": "true",
        "none": None,
        "empty": "",
        "two\nlines": "a\nb",
    }
    assert [second["payload"][name] for name in ("big", "ratio", "flag", "empty")] == [
        *("NULL", "nan", "NA", None)
    ]


def test_declared_payload_columns_decide_the_types_of_csv(folder: Path) -> None:
    declared = pa.schema([("id", pa.int64()), ("zip", pa.string())])
    with sl.open("file:.strandline/events") as log:
        log.create_topic("orders", payload_schema=declared)
    (folder / "rows.csv").write_text("id,zip,other\n7,01234,08\n")
    (folder / "bad.csv").write_text("id,zip,other\nA-1,01234,08\n")

    ran("append", "orders", "--from", "rows.csv", "--kind", "row")

    assert payloads() == [{"id": 7, "zip": "01234", "other": "08"}]
    assert "do not fit" in run("append", "orders", "--from", "bad.csv", "--kind", "row").stderr


def test_a_typed_topic_gets_the_texts_of_csv_as_they_are(folder: Path) -> None:
    with sl.open("file:.strandline/events") as log:
        log.scope().register("places", pa.schema([("zip", pa.string()), ("n", pa.int64())]))
    (folder / "rows.csv").write_text("n,zip\n1,01234\n,00501\n")

    ran("append", "places", "--from", "rows.csv")

    [record] = ran("read", "places", "--json").lines
    assert record["rows"] == [{"zip": "01234", "n": 1}, {"zip": "00501", "n": None}]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("id,name\n1,Müller\n".encode("latin-1"), "UTF"),
        ("id,näme\n1,x\n".encode("latin-1"), "UTF-8"),
        (b"id,amount,amount\n1,10,20\n", "columns=['amount']"),
        (b"id,amount\n1,10,20\n", "Expected 2 columns, got 3"),
        (b"", "names of its columns"),
    ],
)
def test_csv_that_would_lose_something_is_refused(content: bytes, told: str, folder: Path) -> None:
    (folder / "rows.csv").write_bytes(content)
    ran("create", "orders")

    refused = run("append", "orders", "--from", "rows.csv", "--kind", "row")

    assert refused.code == 2
    assert told in refused.stderr
    assert payloads() == []


def test_csv_with_nothing_but_names_appends_nothing(folder: Path) -> None:
    (folder / "rows.csv").write_text("\ufeffid,name\r\n")
    ran("create", "orders")

    assert (
        ran("append", "orders", "--from", "rows.csv", "--kind", "a", "--json").document["records"]
        == 0
    )


def test_columns_of_one_name_are_refused_in_parquet_and_arrow(folder: Path) -> None:
    batch = pa.record_batch([pa.array([1]), pa.array([2])], names=["id", "id"])
    save(pa.Table.from_batches([batch]), folder / "rows.arrow")
    ran("create", "orders")

    refused = run("append", "orders", "--from", "rows.arrow", "--kind", "row")

    assert "columns=['id']" in refused.stderr


def save_with_an_error(name: str, good: int, path: Path) -> None:
    if name == "rows.jsonl":
        path.write_text('{"id": 1}\n' * good + "nonsense\n")
    elif name == "rows.csv":
        path.write_text("id\n" + "1\n" * 600_000 + "1,2\n")
    else:
        rows = pa.table({"kind": ["a"] * good + [""]})
        save(rows, path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet", "rows.arrow"])
def test_an_error_in_the_middle_says_what_is_stored_and_how_to_continue(
    name: str, folder: Path
) -> None:
    save_with_an_error(name, 2500, folder / name)
    kind = ("--kind", "a") if name in {"rows.jsonl", "rows.csv"} else ()
    ran("create", "orders")

    refused = run("append", "orders", "--from", name, *kind, "--json")

    error = msgspec.json.decode(refused.stderr.splitlines()[-1])["error"]
    stored = int(error["fields"]["stored"])
    assert stored == ran("describe", "orders", "--json").document["records"] > 0
    assert f"{stored} records are stored, continue with --skip {stored}" in error["message"]

    again = run("append", "orders", "--from", name, *kind, "--skip", str(stored), "--json")

    assert again.code == 2
    assert "--skip" not in again.stderr
    assert ran("describe", "orders", "--json").document["records"] == stored


def test_skip_leaves_out_the_first_values(folder: Path) -> None:
    ran("create", "orders")

    ran("append", "orders", "--kind", "a", "--skip", "2", stdin="1\n2\n3\n4\n")

    assert payloads() == [3, 4]


def test_a_header_that_is_given_twice_is_refused() -> None:
    ran("create", "orders")

    refused = run("append", "orders", "1", "--kind", "a", "--header", "a=1", "--header", "a=2")

    assert refused.code == 2
    assert "'a' is given twice" in refused.stderr
    assert payloads() == []


def test_a_dash_in_place_of_a_payload_is_standard_input() -> None:
    ran("create", "orders")
    ran("create", "frames", "--kind", "bytes")

    ran("append", "orders", "-", stdin='{"kind": "a"}\n')
    ran("append", "orders", "-", "--kind", "b", stdin="1\n2\n")
    ran("append", "frames", "-")

    assert [line["kind"] for line in ran("read", "orders", "--json").lines] == ["a", "b", "b"]
    [frame] = ran("read", "frames", "--json").lines
    assert base64.b64decode(frame["value"]) == b"-"  # Any text is bytes.
