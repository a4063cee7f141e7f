"""How large a record counts, alike in every backend and in the tier."""

from strandline.values import Event, Record


def size_of(record: Record) -> int:
    """Return the size of one record."""
    key = 0 if record.key is None else len(record.key.encode())
    value = record.value
    if isinstance(value, Event):
        return key + len(value.payload_json) + len(value.headers_json) + len(value.kind.encode())
    return key + (len(value) if isinstance(value, bytes) else int(value.nbytes))
