"""Drafts and rows of a database, with the core and without: the same, for any events."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline._core import IS_COMPILED
from strandline.log.draft import Draft, draft
from strandline.log.draft_columns import EventDrafts
from strandline.log.history import EventBody
from strandline.stores.sqlite import record_rows as rows_module
from strandline.values import InvalidError, ValueKind
from tests.core.plain import needs_core
from tests.core.test_references import grown

if IS_COMPILED:
    from strandline._core.core import is_signed, record_row, record_rows, sizes_of

pytestmark = needs_core

BYTES_MAX = 200
TOPIC = b"0123456789abcdef", 3
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
EVENTS = st.builds(
    lambda payload, key, headers, at: sl.Event(
        "plåced", payload, key=key, headers=headers, occurred_at=at
    ),
    st.text(max_size=120) | st.integers() | st.none(),
    st.none() | TEXTS,
    st.dictionaries(TEXTS, st.text(max_size=10), max_size=2),
    st.none() | st.datetimes(timezones=st.timezones()),
)
VALUES = st.lists(EVENTS, max_size=4)


def rows(drafts: Any, tenant: Any, *, core: bool) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "IS_COMPILED", core)
        return rows_module.record_rows(drafts, tenant, TOPIC, (7 << 40 | 5, 5), 1_700_000_000)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(events=VALUES, tenant=st.none() | TEXTS)
def test_events_become_the_same_drafts_and_rows(events: list[sl.Event], tenant: str | None) -> None:
    sizes = sizes_of(events, BYTES_MAX)
    try:
        plain = [draft(event, None, ValueKind.EVENT, BYTES_MAX) for event in events]
    except InvalidError:
        assert sizes is NotImplemented
        return

    assert sizes == [each.size_bytes for each in plain]
    drafts = EventDrafts(events, sizes)
    assert list(drafts) == plain
    assert {type(each) for each in drafts} <= {Draft}
    assert {type(each.body) for each in drafts} <= {EventBody}
    assert rows(drafts, tenant, core=True) == rows(plain, tenant, core=False)
    assert rows(plain, tenant, core=True) == rows(plain, tenant, core=False)
    assert record_rows(events, tenant, *TOPIC, 5, 5, 17) is not NotImplemented
    assert record_rows(plain, tenant, *TOPIC, 5, 5, 17) is not NotImplemented
    for event, row in zip(events, rows(plain, None, core=False), strict=True):
        offset = row[0] - (7 << 40)
        alone = record_row(event, *TOPIC, row[0], offset, 1_700_000_000)
        assert (*alone[:3], None, *alone[3:]) == row


@pytest.mark.parametrize("wrong", [b"short", b"\0" * 48])
def test_a_sign_without_a_path_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="too short"):
        is_signed(wrong)


@pytest.mark.parametrize("value", [b"bytes", 7, None, [sl.Event("k")]])
def test_what_is_no_event_is_left_to_python(value: Any) -> None:
    assert sizes_of([sl.Event("k"), value], BYTES_MAX) is NotImplemented


@pytest.mark.parametrize(
    "wrong",
    [
        Draft(None, b"bytes", 5),
        Draft("\ud800", EventBody("k", b"1", b"{}", None), 5),
        Draft(None, EventBody("k", b"1", b"{}", 1 << 70), 5),
        (None, None, None),
        (),
        7,
    ],
    ids=["bytes", "surrogate", "large", "none", "short", "other"],
)
def test_a_draft_that_is_not_an_event_s_is_left_to_python(wrong: Any) -> None:
    right = Draft(None, EventBody("k", b"1", b"{}", None), 5)

    assert record_rows([right, wrong], None, *TOPIC, 5, 5, 17) is NotImplemented
    assert record_rows((right,), None, *TOPIC, 5, 5, 17) is NotImplemented


def test_bytes_are_stored_as_before() -> None:
    drafts = [draft(b"value", "k", ValueKind.BYTES, BYTES_MAX)]

    assert rows(drafts, "acme", core=True) == rows(drafts, "acme", core=False)


@pytest.mark.slow
def test_no_block_is_left_behind() -> None:
    events = [sl.Event("k", number, key="k", headers={"a": "b"}) for number in range(5)]

    sizes = sizes_of(events, BYTES_MAX)
    assert sizes is not NotImplemented

    def make() -> None:
        drafts = EventDrafts(events, sizes)
        rows(drafts, None, core=True)
        rows([*drafts], None, core=True)
        record_rows([7], None, *TOPIC, 5, 5, 17)
        record_row(events[0], *TOPIC, 5, 5, 17)

    assert grown(make, 2_000) < 200
