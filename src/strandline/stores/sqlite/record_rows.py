"""Drafts as the rows in which their records are stored."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strandline._core import IS_COMPILED
from strandline.log.draft import Draft
from strandline.log.draft_columns import EventDrafts
from strandline.log.history import EventBody
from strandline.stores.sqlite.checksum import Content, record_crc
from strandline.stores.sqlite.records import Row
from strandline.values import Tenant

if TYPE_CHECKING or IS_COMPILED:
    from strandline._core.core import record_rows as rows_by_core
else:
    rows_by_core = None

_NO_HEADERS = b"{}"


def record_rows(
    drafts: Sequence[Draft],
    tenant: Tenant | None,
    topic: tuple[bytes, int],
    first: tuple[int, int],
    now_us: int,
) -> list[Row]:
    """Return the rows of drafts for a partition; `first` is the first row id and offset."""
    place, start = first
    if IS_COMPILED:
        values = drafts.events if isinstance(drafts, EventDrafts) else [*drafts]
        made: Any = rows_by_core(values, tenant, *topic, place, start, now_us)
        if made is not NotImplemented:
            return made  # type: ignore[no-any-return]
    contents = [_content(draft, tenant) for draft in drafts]
    return [
        (place + index, now_us, *content, record_crc(*topic, start + index, now_us, content))
        for index, content in enumerate(contents)
    ]


def _content(draft: Draft, tenant: Tenant | None) -> Content:
    body = draft.body
    if not isinstance(body, EventBody):
        return draft.key, tenant, None, body, None, None, draft.size_bytes
    kind, value, headers, occurred_at_us = body
    stored = None if headers == _NO_HEADERS else headers
    return draft.key, tenant, kind, value, stored, occurred_at_us, draft.size_bytes
