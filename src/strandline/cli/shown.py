"""A record for a person, on one line."""

from strandline.cli.screen import printable, to_json
from strandline.values import Event, Record
from strandline.values.json_forms import moment
from strandline.values.json_rows import jsonable, rows_of


def record_line(record: Record) -> str:
    """Return a record for a person: where, when, key, kind, payload, on one line."""
    value = record.value
    place = f"{record.partition}/{record.offset}"
    begin = f"{place:<10} {moment(record.timestamp_us)}"
    key = "-" if record.key is None else printable(record.key)
    if isinstance(value, Event):
        return f"{begin}  {key}  {value.kind}  {printable(value.payload_json.decode())}"
    if isinstance(value, bytes):
        return f"{begin}  {key}  {printable(value.decode(errors='backslashreplace'))}"
    rows = "1 row" if value.num_rows == 1 else f"{value.num_rows:,} rows"
    first = [to_json(jsonable(each)) for each in rows_of(value.slice(0, 1))]
    return f"{begin}  {key}  {rows}{''.join(f': {each}' for each in first)}{_rest(value.num_rows)}"


def _rest(rows: int) -> str:
    return ", …" if rows > 1 else ""
