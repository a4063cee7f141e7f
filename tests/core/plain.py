"""Events and their frames as plain Python makes them, to hold the core to."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from strandline._core import CORE, IS_COMPILED
from strandline.log.draft import Draft
from strandline.log.draft_columns import event_arrays
from strandline.log.history import EventBody
from strandline.stores.files.columnar import encode_batch, frame_schema
from strandline.stores.files.frame import encode_row
from strandline.values import StrandlineError, ValueKind
from strandline.values._plain_event import Event as PlainEvent

needs_core = pytest.mark.skipif(not IS_COMPILED, reason=f"the core is not in use: {CORE}")

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ODD_TEXT = st.text()
FLOATS = st.floats() | st.decimals(-(10**9), 10**9, places=6).map(float)
SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | ODD_TEXT | st.binary()
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner) | st.dictionaries(ODD_TEXT | st.integers(), inner) | st.tuples(inner)
    ),
)
MOMENTS = st.none() | st.datetimes(timezones=st.just(UTC))


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Return what an event is made of; some of it is refused."""
    return {
        "kind": draw(st.sampled_from(["a", "order.created", "x" * 200, "é", "", "a\n"]) | ODD_TEXT),
        "payload": draw(JSON),
        "key": draw(st.none() | st.sampled_from(["", "k", "k" * 300]) | ODD_TEXT),
        "headers": draw(st.dictionaries(ODD_TEXT, ODD_TEXT, max_size=12)),
        "occurred_at": draw(MOMENTS),
    }


def made(kind: Any, given: dict[str, Any]) -> Any:
    """Return an event, or the error that says why there is none."""
    try:
        return kind(**given)
    except StrandlineError as error:
        return type(error), str(error)


def plain_row(parts: tuple[Any, ...]) -> bytes:
    """Return an event as encoded in a frame of rows."""
    kind, payload, key, headers, occurred_at = parts
    # Without the head of an array of one.
    (encoded,) = encode_row(Draft(key, EventBody(kind, payload, headers, occurred_at), 0))
    return bytes(encoded[1:])


def plain_columns(events: Sequence[Any]) -> bytes:
    """Return the body of a frame of columns."""
    kinds, payloads, keys, headers, times = PlainEvent.columns(
        PlainEvent.load(*each.parts()) for each in events
    )
    arrays = event_arrays((keys, kinds, payloads, headers, times))
    schema = frame_schema(ValueKind.EVENT, 0)
    body = encode_batch(pa.RecordBatch.from_arrays(arrays, schema=schema), 0, None)[1]
    return bytes(memoryview(body))


MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
