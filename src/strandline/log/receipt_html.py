"""How receipts of every backend look in a notebook."""

import itertools
from datetime import UTC, datetime, timedelta

from strandline.log.results import Receipt, Receipts
from strandline.values.durability import Durability
from strandline.values.html import ROWS_MAX, html_fields, html_table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def receipt_html(receipt: Receipt) -> str:
    """Return what became of one append."""
    if not receipt.is_settled:
        return html_fields("Receipt", {"outcome": "not known yet"})
    return html_fields(
        "Receipt",
        {
            "partition": receipt.partition,
            "offset": receipt.offset,
            "timestamp": _EPOCH + timedelta(microseconds=receipt.timestamp_us),
            "level": _level(receipt.level),
            "repeat": receipt.is_repeat,
        },
    )


def receipts_html(receipts: Receipts) -> str:
    """Return what became of the first of many appends."""
    count = len(receipts)
    header = ("partition", "offset", "level", "repeat")
    rows = [
        (each.partition, each.offset, _level(each.level), each.is_repeat)
        if each.is_settled
        else ("", "", "not known yet", "")
        for each in itertools.islice(receipts, ROWS_MAX)
    ]
    return html_table(f"{count:,} receipts", header, rows, count=count)


def _level(level: Durability | None) -> str | None:
    return None if level is None else str(level)
