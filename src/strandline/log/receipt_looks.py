"""How receipts are shown, at a prompt and in a notebook."""

import itertools
from typing import TYPE_CHECKING

from strandline.values.errors import StrandlineError
from strandline.values.html import ROWS_MAX, html_fields, html_table
from strandline.values.instants import datetime_at

if TYPE_CHECKING:
    from strandline.log.receipts import Receipt, Receipts


def receipt_text(receipt: "Receipt") -> str:
    """Return the outcome of one append, for a prompt."""
    parts = [f"{name}={value}" for name, value in _fields(receipt).items()]
    return f"Receipt({', '.join(parts)})"


def receipts_text(receipts: "Receipts") -> str:
    """Return the first of many appends, for a prompt."""
    shown = [receipt_text(each) for each in itertools.islice(receipts, ROWS_MAX)]
    if (more := len(receipts) - len(shown)) > 0:
        shown.append(f"… {more:,} more")
    return f"[{', '.join(shown)}]"


def receipt_html(receipt: "Receipt") -> str:
    """Return the outcome of one append."""
    return html_fields("Receipt", _fields(receipt))


def receipts_html(receipts: "Receipts") -> str:
    """Return the outcome of the first of many appends."""
    count = len(receipts)
    rows = [_fields(each) for each in itertools.islice(receipts, ROWS_MAX)]
    header = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name, "") for name in header] for row in rows]
    return html_table(f"{count:,} receipts", header, cells, count=count)


def _fields(receipt: "Receipt") -> dict[str, object]:
    if not receipt.is_settled:
        return {"outcome": "not known yet"}
    try:
        return {
            "partition": receipt.partition,
            "offset": receipt.offset,
            "timestamp": datetime_at(receipt.timestamp_us),
            "level": str(receipt.level),
            "repeat": receipt.is_repeat,
        }
    except StrandlineError as error:
        return {"outcome": f"{type(error).__name__}: {error}"}
