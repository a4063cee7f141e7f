"""Records: one offset of one partition."""

import pickle
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from strandline.values import Event, InvalidError, Offset, Partition, Record, Tenant


def record(value: Event | bytes | pa.RecordBatch) -> Record:
    return Record(
        "orders", Partition(2), Offset(5), 1_700_000_000_123_456, "c-9", Tenant("acme"), value
    )


def test_an_event_record_shows_its_event() -> None:
    event_record = record(Event("order.created", {"id": 17}, headers={"a": "1"}))

    assert event_record.kind == "order.created"
    assert event_record.payload == {"id": 17}
    assert event_record.headers == {"a": "1"}


def test_the_timestamp_is_exact_and_in_utc() -> None:
    assert record(b"").timestamp == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)


@pytest.mark.parametrize("value", [b"raw", pa.RecordBatch.from_pydict({"a": [1]})])
def test_a_record_of_another_kind_says_that_it_holds_no_event(
    value: bytes | pa.RecordBatch,
) -> None:
    other = record(value)

    assert other.value == value
    for name in ("event", "kind", "payload", "headers"):
        with pytest.raises(InvalidError, match="holds no event"):
            getattr(other, name)


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        record(b"raw").offset = Offset(6)  # type: ignore[misc]


@pytest.mark.parametrize(
    "value", [b"raw", Event("k", {"a": 1}), pa.RecordBatch.from_pydict({"a": [1]})]
)
def test_a_record_survives_pickling(value: Event | bytes | pa.RecordBatch) -> None:
    assert pickle.loads(pickle.dumps(record(value))) == record(value)
