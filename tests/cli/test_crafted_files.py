"""Files made to break the program: each is an error with a code, in bounded memory."""

import base64
import json
import resource
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyarrow import parquet

import strandline as sl
from strandline.cli import user_files
from strandline.cli.exit_codes import ExitCode
from strandline.values import arrow_input
from tests.cli.program import PROGRAM, environment, run

HEADER: dict[str, Any] = {
    "strandline_export": 1,
    "log_id": "x",
    "topic": "t",
    "tenant": None,
    "topic_id": "y",
    "kind": "event",
    "partitions": 1,
    "retention_age_s": None,
    "retention_bytes": None,
    "limit_bytes": None,
    "proof": False,
    "created_at_us": 0,
    "metadata": {},
    "schemas": [],
}
PLACE: dict[str, Any] = {
    "partition": 0,
    "offset": 0,
    "timestamp_us": 1,
    "key": None,
    "tenant": None,
}
EVENT = {**PLACE, "kind": "k", "payload": {"a": 1}, "headers": {}, "occurred_at_us": None}


def stream(batch: pa.RecordBatch, compression: str | None = None, count: int = 1) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        for _ in range(count):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def beyond_its_data() -> bytes:
    good = stream(pa.record_batch({"a": pa.array([b"abcdefgh"], pa.binary())}))
    before, found, after = good.rpartition(struct.pack("<ii", 0, 8))
    assert found
    return before + struct.pack("<ii", 0, 100_000) + after


def lying_length() -> bytes:
    good = bytearray(stream(pa.record_batch({"a": ["x" * 100] * 1000}), "zstd"))
    at = good.index(struct.pack("<q", 100_000))
    good[at : at + 8] = struct.pack("<q", 1 << 44)
    return bytes(good)


def batch_line(stored: bytes, **more: Any) -> dict[str, Any]:
    return {**PLACE, "value": base64.b64encode(stored).decode(), **more}


def deep_json() -> str:
    return json.dumps({**EVENT, "payload": 0}).replace('"payload": 0', f'"payload": {"[" * 10**5}')


BATCH = {**HEADER, "kind": "batch"}
LINES: dict[str, tuple[Any, Any]] = {
    "offsets beyond the data": (BATCH, batch_line(beyond_its_data())),
    "half a stream": (BATCH, batch_line(stream(pa.record_batch({"a": [1]}))[:-40])),
    "no stream": (BATCH, batch_line(b"\xff" * 100)),
    "a message of 256 MiB": (BATCH, batch_line(b"\xff\xff\xff\xff\x00\x00\x00\x10" + b"x" * 100)),
    "two batches": (BATCH, batch_line(stream(pa.record_batch({"a": [1]}), count=2))),
    "a length that lies": (BATCH, batch_line(lying_length())),
    "no base64": (BATCH, {**PLACE, "value": "\u00e9"}),
    "deep JSON": (HEADER, deep_json()),
    "deep JSON that ends": (HEADER, {**EVENT, "payload": json.loads("[" * 200 + "]" * 200)}),
    "null partition": (HEADER, {**EVENT, "partition": None}),
    "no such partition": (HEADER, {**EVENT, "partition": 10**9}),
    "negative partition": (HEADER, {**EVENT, "partition": -1}),
    "huge offset": (HEADER, {**EVENT, "offset": 10**30, "kind": ""}),
    "time beyond 9999": (HEADER, {**EVENT, "timestamp_us": 10**30}),
    "occurred beyond 9999": (HEADER, {**EVENT, "occurred_at_us": 2**62}),
    "headers of numbers": (HEADER, {**EVENT, "headers": {"a": 1}}),
    "key of a surrogate": (HEADER, json.dumps({**EVENT, "key": "\ud800"})),
    "tenant of a path": (HEADER, {**EVENT, "tenant": "../up"}),
    "a number": (HEADER, "1"),
    "nothing": ("", ""),
    "no schema": ({**BATCH, "schemas": ["AAAA"]}, ""),
    "schema that is no base64": ({**BATCH, "schemas": ["\u00e9"]}, ""),
    "schema of events": ({**HEADER, "schemas": ["AAAA"]}, ""),
    "no partitions": ({**HEADER, "partitions": 0}, ""),
    "many partitions": ({**HEADER, "partitions": 10**20}, ""),
    "internal topic": ({**HEADER, "topic": "__strandline.schemas"}, ""),
    "topic of a path": ({**HEADER, "topic": "../../up"}, ""),
    "odd metadata": ({**HEADER, "metadata": {"a": 1}}, ""),
}


def written(path: Path, header: Any, line: Any) -> str:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in (header, line)]
    path.write_bytes("\n".join(texts).encode("utf-8", "surrogatepass") + b"\n")
    return str(path)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("header", "line"), LINES.values(), ids=LINES)
def test_a_crafted_export_is_refused(header: Any, line: Any) -> None:
    done = run("import", written(Path("f.jsonl"), header, line), "--url", "file:log")

    assert done.code == ExitCode.USAGE, done.stderr
    with sl.open("file:log") as log:
        for topic in log.topics():
            assert log.marks(topic, 0).high == 0


def parquet_of(**columns: Any) -> str:
    schema = pa.schema(
        [
            *(("partition", pa.int32()), ("offset", pa.int64())),
            *(("timestamp", pa.timestamp("us", "UTC")), ("key", pa.string())),
            *(("tenant", pa.string()), ("kind", pa.string()), ("payload", pa.string())),
            *(("headers", pa.string()), ("occurred_at", pa.timestamp("us", "UTC"))),
        ],
        metadata={"strandline.export": json.dumps(HEADER)},
    )
    good: dict[str, object] = {
        "partition": 0,
        "offset": 0,
        "timestamp": 1,
        "key": None,
        "tenant": None,
    }
    good |= {"kind": "k", "payload": "1", "headers": "{}", "occurred_at": None}
    row: dict[str, Any] = {**good, **columns}
    arrays = [
        row[name] if isinstance(row[name], pa.Array) else pa.array([row[name]], field.type)
        for name, field in zip(schema.names, schema, strict=True)
    ]
    parquet.write_table(pa.Table.from_arrays(arrays, schema=schema), "f.parquet")
    return "f.parquet"


NO_UTF8 = pa.array([b"\xff"], pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    "columns",
    [
        *({"partition": None}, {"offset": None}, {"timestamp": None}, {"kind": None}),
        *({"payload": None}, {"headers": None}, {"payload": "{"}, {"headers": "[]"}),
        *({"payload": "[" * 100_000}, {"kind": ""}, {"payload": NO_UTF8}, {"key": NO_UTF8}),
        {"timestamp": 2**62},
    ],
    ids=lambda columns: str(columns)[:30],
)
def test_a_crafted_parquet_export_is_refused(columns: dict[str, Any]) -> None:
    done = run("import", parquet_of(**columns), "--url", "file:log")

    assert done.code == ExitCode.USAGE, done.stderr


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 200 + b"PAR1", b"x" * 99])
def test_what_is_no_parquet_is_refused(content: bytes) -> None:
    Path("f.parquet").write_bytes(content)

    assert run("import", "f.parquet", "--url", "file:log").code == ExitCode.USAGE


def user_files_of() -> dict[str, Callable[[], bytes]]:
    return {
        "beyond.arrow": beyond_its_data,
        "half.arrow": lambda: stream(pa.record_batch({"a": [1]}))[:-40],
        "magic.arrow": lambda: b"ARROW1",
        "noise.arrow": lambda: b"\xff" * 100,
        "empty.arrow": lambda: b"",
        "huge.arrow": lambda: b"\xff\xff\xff\xff\x00\x00\x00\x70" + b"x" * 100,
        "lying.arrow": lying_length,
        "zone.arrow": lambda: stream(
            pa.record_batch({"a": pa.array([1], pa.timestamp("us", "No/Where"))})
        ),
        "deep.jsonl": lambda: b"[" * 100_000,
        "digits.jsonl": lambda: b"9" * 100_000,
        "noise.jsonl": lambda: b"\xff\xfe\n",
        "noise.csv": lambda: b'"' + b"\xff" * 100,
        "noise.parquet": lambda: b"PAR1" + bytes(100) + b"PAR1",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", user_files_of())
def test_a_crafted_file_is_not_appended(name: str) -> None:
    Path(name).write_bytes(user_files_of()[name]())
    run("create", "t", "--url", "file:log")

    done = run("append", "t", "--from", name, "--kind", "k", "--url", "file:log")

    assert done.code == ExitCode.USAGE, done.stderr
    with sl.open("file:log") as log:
        assert log.marks("t", 0).high == 0


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("as_file", [False, True])
def test_a_good_arrow_file_is_appended(compression: str | None, as_file: bool) -> None:
    batch = pa.record_batch({"a": pa.array(["x", "y"] * 50).dictionary_encode()})
    new = pa.ipc.new_file if as_file else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with new("good.arrow", batch.schema, options=options) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch.slice(3, 5))
    run("create", "t", "--kind", "batch", "--url", "file:log")

    done = run("append", "t", "--from", "good.arrow", "--url", "file:log")

    assert done.code == ExitCode.OK, done.stderr
    with sl.open("file:log") as log:
        found = [record.value for record in log.read("t", 0, 0)]
        assert [each.to_pydict() for each in found if isinstance(each, pa.RecordBatch)] == [
            batch.to_pydict(),
            batch.slice(3, 5).to_pydict(),
        ]


def test_a_line_without_an_end_is_refused_before_it_is_read() -> None:
    Path("f.jsonl").write_bytes(b'{"kind": "' + b"x" * 3000)
    run("create", "t", "--url", "file:log")

    with mock.patch.object(user_files, "LINE_BYTES_MAX", 1000):
        appended = run("append", "t", "--from", "f.jsonl", "--url", "file:log")
        imported = run("import", "f.jsonl", "--url", "file:log")

    assert (appended.code, imported.code) == (ExitCode.USAGE, ExitCode.USAGE)
    assert "too long" in appended.stderr
    assert "too long" in imported.stderr


def test_a_bomb_is_refused_before_it_is_decompressed() -> None:
    """Planted: without the bound, the same file is taken."""
    batch = pa.record_batch({"a": pa.array([bytes(1 << 20)], pa.binary())})
    Path("bomb.arrow").write_bytes(stream(batch, "zstd"))
    run("create", "t", "--kind", "batch", "--url", "file:log")

    with mock.patch.object(arrow_input, "MESSAGE_BYTES_MAX", 1 << 16):
        refused = run("append", "t", "--from", "bomb.arrow", "--url", "file:log")
    taken = run("append", "t", "--from", "bomb.arrow", "--url", "file:log")

    assert refused.code == ExitCode.USAGE
    assert "decompressed" in refused.stderr
    assert taken.code == ExitCode.OK


@pytest.mark.slow
def test_lengths_that_lie_take_no_memory() -> None:
    import subprocess  # noqa: PLC0415 For this alone.

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    for name in ("huge.arrow", "lying.arrow", "deep.jsonl"):
        Path(name).write_bytes(user_files_of()[name]())
    run("create", "t", "--url", "file:log")
    for name in ("huge.arrow", "lying.arrow", "deep.jsonl"):
        done = subprocess.run(
            [PROGRAM, "append", "t", "--from", name, "--kind", "k", "--url", "file:log"],
            check=False,
            capture_output=True,
            text=True,
            env=environment(),
            preexec_fn=limit,
            timeout=120,
        )
        assert done.returncode == ExitCode.USAGE, done.stderr
        assert "Traceback" not in done.stderr
