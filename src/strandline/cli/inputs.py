"""Values to append, from arguments, JSON lines, CSV, Parquet and Arrow files."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from strandline.cli.user_files import lines_of
from strandline.values import Event, InvalidError, ValueKind
from strandline.values.json_rows import jsonable, rows_of
from strandline.values.unreadable_json import why_unreadable

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""The formats by the ending of a file's name."""

ParsedT = TypeVar("ParsedT")

_EVENT_FIELDS = {"kind", "payload", "key", "headers", "occurred_at"}


class InputValue(NamedTuple):
    """One value to append, and a key for values that have none."""

    value: "Event | bytes | pa.RecordBatch"
    key: str | None


@dataclass(frozen=True, slots=True)
class InputTerms:
    """Options that apply to all values."""

    kind: str | None = None
    """If set, a line or row is a payload; otherwise it is a whole event."""
    key: str | None = None
    key_column: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    occurred_at: datetime | None = None

    def event(self, payload: object, key: str | None = None) -> Event:
        """Return an event with this payload."""
        assert self.kind is not None
        chosen = key if key is not None else self.key
        return Event(
            self.kind, payload, key=chosen, headers=self.headers, occurred_at=self.occurred_at
        )


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """An event as a line of JSON."""

    kind: str
    payload: object = None
    key: str | None = None
    headers: dict[str, str] = {}
    occurred_at: datetime | None = None


class _BytesLine(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes as a line of JSON."""

    value: str
    key: str | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_bytes_line = msgspec.json.Decoder(_BytesLine).decode
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


def from_arguments(
    texts: Iterable[str], kind: ValueKind, terms: InputTerms
) -> Iterator[InputValue]:
    """Yield a value for each argument: JSON for an event, plain text for bytes."""
    for number, text in enumerate(texts, 1):
        if kind is ValueKind.EVENT and terms.kind is None:
            yield InputValue(_event(_whole_event(text, number), terms), None)
        elif kind is ValueKind.EVENT:
            yield InputValue(terms.event(_payload(text, number)), None)
        elif kind is ValueKind.BYTES:
            yield InputValue(text.encode(), terms.key)
        else:
            raise InvalidError("a topic of batches is appended to from a file, with --from")


def _whole_event(text: str, number: int) -> _Line:
    try:
        return _decode_line(text.encode())
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError(
            'without --kind an argument is a whole event, such as \'{"kind": "a", "payload": 1}\','
            " with only the fields kind, payload, key, headers and occurred_at",
            argument=number,
            reason=why_unreadable(error, text.encode(errors="surrogatepass")),
        ) from error


def _payload(text: str, number: int) -> object:
    try:
        return _decode(text.encode())
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError(
            """a payload must be JSON, so write text as '"like this"'""",
            argument=number,
            reason=why_unreadable(error, text.encode(errors="surrogatepass")),
        ) from error


def from_file(
    file: IO[bytes],
    file_format: str,
    kind: ValueKind,
    terms: InputTerms,
    schema: "pa.Schema | None",
) -> Iterator[InputValue]:
    """Yield the values in a file; `schema` is the topic's, for columns of CSV."""
    if file_format == "jsonl":
        if kind is ValueKind.BATCH:
            raise InvalidError("a topic of batches accepts CSV, Parquet and Arrow, not JSON lines")
        yield from _from_lines(file, kind, terms)
        return
    # Of a typed topic, what the schema does not have is refused with its type.
    infers = kind is ValueKind.BATCH and schema is not None
    for batch in _batches(file, file_format, schema, infers=infers):
        if kind is ValueKind.BATCH:
            if batch.num_rows:
                yield InputValue(batch, terms.key)
        else:
            yield from _from_rows(batch, kind, terms)


def _from_lines(file: IO[bytes], kind: ValueKind, terms: InputTerms) -> Iterator[InputValue]:
    for number, line in enumerate(lines_of(file), 1):
        if not line.strip():
            continue
        if kind is ValueKind.BYTES:
            stored = _parsed(_decode_bytes_line, line, number)
            yield InputValue(_unpacked(stored.value, number), stored.key or terms.key)
        elif terms.kind is None:
            yield InputValue(_event(_parsed(_decode_line, line, number), terms), None)
        else:
            payload = _parsed(_decode, line, number)
            yield InputValue(terms.event(payload, _key_in(payload, terms)), None)


def _event(line: _Line, terms: InputTerms) -> Event:
    return Event(
        line.kind,
        line.payload,
        key=line.key if line.key is not None else terms.key,
        headers={**terms.headers, **line.headers},
        occurred_at=line.occurred_at or terms.occurred_at,
    )


def _batches(
    file: IO[bytes], file_format: str, schema: "pa.Schema | None", *, infers: bool
) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa  # noqa: PLC0415 Not for JSON lines.

    from strandline.values.arrow_input import read_arrow  # noqa: PLC0415 The same.
    from strandline.values.batches import check_content, check_structure  # noqa: PLC0415 The same.

    if file_format == "arrow":
        yield from read_arrow(file)
        return
    try:
        if file_format == "csv":
            from strandline.cli.csv_rows import batches_of  # noqa: PLC0415 The same.

            found = batches_of(file, schema, infers=infers)
        else:
            from pyarrow import parquet  # noqa: PLC0415 The same.

            found = parquet.ParquetFile(_sought(file)).iter_batches()
        for batch in found:
            check_structure(batch)
            check_content(batch)
            yield batch
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        fits = schema is None or "conversion error" not in str(error)
        what = "this cannot be read as" if fits else "these rows do not fit the topic's schema in"
        raise InvalidError(f"{what} {file_format}", reason=str(error)) from error


def _sought(file: IO[bytes]) -> "IO[bytes] | pa.BufferReader":
    """Return a seekable file: a pipe is read into memory."""
    import pyarrow as pa  # noqa: PLC0415 The same.

    return file if file.seekable() else pa.BufferReader(file.read())


def _from_rows(batch: "pa.RecordBatch", kind: ValueKind, terms: InputTerms) -> Iterator[InputValue]:
    from strandline.cli.csv_rows import check_names  # noqa: PLC0415 Not for JSON lines.

    check_names(batch.schema.names)
    for number, row in enumerate(rows_of(batch), 1):
        if kind is ValueKind.BYTES:
            if not isinstance(row.get("value"), bytes):
                raise InvalidError("bytes come from a binary column named value", row=number)
            yield InputValue(row["value"], row.get("key") or terms.key)
        elif terms.kind is not None:
            payload = jsonable(row)
            yield InputValue(terms.event(payload, _key_in(payload, terms)), None)
        else:
            yield InputValue(_event(_line_of(row, number), terms), None)


def _line_of(row: dict[str, object], number: int) -> _Line:
    """Return a row with the columns of an event; payload and headers are JSON in text."""
    unknown = sorted(row.keys() - _EVENT_FIELDS)
    if unknown or not row.get("kind"):
        raise InvalidError(
            "without --kind, the columns are kind, payload, key, headers and occurred_at",
            row=number,
            unknown=unknown,
        )
    fields = {name: value for name, value in row.items() if value is not None}
    for name in ("payload", "headers"):
        if isinstance(fields.get(name), str):
            fields[name] = _parsed(_decode, str(fields[name]).encode(), number)
    try:
        return msgspec.convert(fields, _Line)
    except msgspec.MsgspecError as error:
        raise InvalidError("this row is not an event", row=number, reason=str(error)) from error


def _key_in(payload: object, terms: InputTerms) -> str | None:
    if terms.key_column is None:
        return None
    if not isinstance(payload, dict) or terms.key_column not in payload:
        raise InvalidError("the payload has no such field for the key", field=terms.key_column)
    value = payload[terms.key_column]
    return None if value is None else str(value)


def _unpacked(text: str, number: int) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidError("this value is not base64", line=number, reason=str(error)) from error


def _parsed(decode: Callable[[bytes], ParsedT], text: bytes, number: int) -> ParsedT:
    try:
        return decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError(
            "this is not the expected JSON", line=number, reason=why_unreadable(error, text)
        ) from error
